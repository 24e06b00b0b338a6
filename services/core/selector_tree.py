"""The wire form of a compiled CEL expression (cel.expr.CheckedExpr), as far as it is looked at.

Declared here instead of imported, because the engine keeps its own copy to itself. What is not declared travels on as
unknown fields.
"""

from google.protobuf import descriptor_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": _Field.TYPE_STRING,
    "int64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
}

#: Message, then name, number, type, and whether it is repeated (*) or part of the message's one choice (?).
_MESSAGES: dict[str, tuple[tuple[str, int, str, str], ...]] = {
    "Any": (("type_url", 1, "string", ""), ("value", 2, "bytes", "")),
    "Constant": (("string_value", 6, "string", "?"),),
    "Ident": (("name", 1, "string", ""),),
    "Select": (("operand", 1, "Expr", ""), ("field", 2, "string", ""), ("test_only", 3, "bool", "")),
    "Call": (("target", 1, "Expr", ""), ("function", 2, "string", ""), ("args", 3, "Expr", "*")),
    "CreateList": (("elements", 1, "Expr", "*"),),
    "Entry": (
        ("id", 1, "int64", ""),
        ("map_key", 3, "Expr", "?"),
        ("field_key", 2, "string", "?"),
        ("value", 4, "Expr", ""),
    ),
    "CreateStruct": (("entries", 2, "Entry", "*"),),
    "Comprehension": (
        ("iter_range", 2, "Expr", ""),
        ("accu_init", 4, "Expr", ""),
        ("loop_condition", 5, "Expr", ""),
        ("loop_step", 6, "Expr", ""),
        ("result", 7, "Expr", ""),
    ),
    "Expr": (
        ("id", 2, "int64", ""),
        ("const_expr", 3, "Constant", "?"),
        ("ident_expr", 4, "Ident", "?"),
        ("select_expr", 5, "Select", "?"),
        ("call_expr", 6, "Call", "?"),
        ("list_expr", 7, "CreateList", "?"),
        ("struct_expr", 8, "CreateStruct", "?"),
        ("comprehension_expr", 9, "Comprehension", "?"),
    ),
    "Reference": (("name", 1, "string", ""),),
}
_CHOICES = {"Constant": "constant_kind", "Entry": "key_kind", "Expr": "expr_kind"}


def checked_expr_file(package: str) -> descriptor_pb2.FileDescriptorProto:
    """Return the declaration of `CheckedExpr` and of what it contains, in a package of the caller's."""
    file = descriptor_pb2.FileDescriptorProto(name="checked.proto", package=package, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _CHOICES:
            message.oneof_decl.add(name=_CHOICES[name])
        for field in fields:
            _add_field(message, field, package=package)
    checked = file.message_type.add(name="CheckedExpr")
    entry = checked.nested_type.add(name="ReferenceMapEntry")
    entry.options.map_entry = True
    _add_field(entry, ("key", 1, "int64", ""), package=package)
    _add_field(entry, ("value", 2, "Reference", ""), package=package)
    _add_field(checked, ("reference_map", 2, "CheckedExpr.ReferenceMapEntry", "*"), package=package)
    _add_field(checked, ("expr", 4, "Expr", ""), package=package)
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, declared: tuple[str, int, str, str], *, package: str) -> None:
    name, number, kind, how = declared
    field = message.field.add(
        name=name, number=number, label=_Field.LABEL_REPEATED if how == "*" else _Field.LABEL_OPTIONAL
    )
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"
    if how == "?":
        field.oneof_index = 0

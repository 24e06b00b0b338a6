"""dryRun=All: the same answers, no effect."""

from tests.contract.kubernetes_api.objects import CONFIG_MAPS, GROUPS, PODS, config_map, group, pod
from tests.contract.kubernetes_api.rows import ANY, Event, Row, Watch, delete, get, merge, post, put

_DRY = {"dryRun": "All"}
_C = f"{CONFIG_MAPS}/c"
_MARK = merge(_C, {"data": {"k": "marker"}})
_CREATED = post(CONFIG_MAPS, config_map(), save={"rv": "metadata.resourceVersion"})
_ONLY_MARK = Watch(
    path=CONFIG_MAPS,
    query={"fieldSelector": "metadata.name=c"},
    events=(Event(kind="MODIFIED", name="c", object={"data": {"k": "marker"}}),),
    is_exact=True,
)

ROWS = (
    Row(
        name="dry-run-create",
        calls=(
            post(PODS, pod(), query=_DRY, answer={"metadata": {"uid": ANY}, "status": {"phase": "Pending"}}),
            get(f"{PODS}/p", code=404, reason="NotFound"),
        ),
    ),
    Row(
        name="dry-run-create-is-validated",
        calls=(
            post(
                GROUPS,
                group(schedulingPolicy={}),
                query=_DRY,
                code=422,
                reason="Invalid",
                causes=(("spec.schedulingPolicy", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="dry-run-create-existing",
        setup=(_CREATED,),
        calls=(post(CONFIG_MAPS, config_map(), query=_DRY, code=409, reason="AlreadyExists"),),
    ),
    Row(
        name="dry-run-replace-and-patch",
        setup=(_CREATED,),
        calls=(
            put(_C, config_map(data={"k": "put"}), query=_DRY, answer={"data": {"k": "put"}}),
            merge(_C, {"data": {"k": "patch"}}, query=_DRY, answer={"data": {"k": "patch"}}),
            get(_C, answer={"data": {"k": "v"}, "metadata": {"resourceVersion": "$rv"}}),
            _MARK,
        ),
        watch=_ONLY_MARK,
    ),
    Row(
        name="dry-run-delete",
        setup=(_CREATED,),
        calls=(delete(_C, query=_DRY), get(_C, answer={"metadata": {"resourceVersion": "$rv"}}), _MARK),
        watch=_ONLY_MARK,
    ),
    Row(
        name="dry-run-status",
        setup=(post(PODS, pod()),),
        calls=(
            merge(
                f"{PODS}/p/status",
                {"status": {"phase": "Running"}},
                query=_DRY,
                answer={"status": {"phase": "Running"}},
            ),
            get(f"{PODS}/p", answer={"status": {"phase": "Pending"}}),
        ),
    ),
    Row(
        name="dry-run-other-value",
        calls=(
            post(
                PODS,
                pod(),
                query={"dryRun": "Some"},
                code=422,
                reason="Invalid",
                causes=(("dryRun", "FieldValueNotSupported"),),
            ),
        ),
    ),
)

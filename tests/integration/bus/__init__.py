"""The bus on a real server that fails."""

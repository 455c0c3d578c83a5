"""A table as Parquet: dtypes as in the frame; what the columns mean travels in the metadata of the file.

Needs pyarrow (the extra `parquet`). Metadata of the file: `rocktools.table`, a JSON object with the fields of the JSON
document save columns and rows. Metadata of each column: `meaning`, `unit` (absent where there is none), `evidence`.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from rocktools.extras import require_extra
from rocktools.render.table import Table, TableColumn

SCHEMA = "rocktools.table/1"


def write_parquet(table: Table, stream: BinaryIO) -> None:
    """Write the file.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    pyarrow = require_extra("pyarrow", "parquet", "--format parquet")
    parquet = require_extra("pyarrow.parquet", "parquet", "--format parquet")
    rows = pyarrow.Table.from_pandas(table.frame, preserve_index=False)
    described = zip(rows.schema, table.columns, strict=True)
    schema = pyarrow.schema([field.with_metadata(_column_metadata(column)) for field, column in described])
    head = {
        "schema": SCHEMA,
        "name": table.name,
        "title": table.title,
        "is_simulated": table.is_simulated,
        "rows_count": table.rows_count,
        "cut_rows_count": table.cut_rows_count,
        "notes": list(table.notes),
    }
    if table.findings is not None:
        head["findings"] = [finding.as_dict() for finding in table.findings]
    metadata = {**(rows.schema.metadata or {}), "rocktools.table": json.dumps(head)}
    parquet.write_table(rows.cast(schema).replace_schema_metadata(metadata), stream)


def _column_metadata(column: TableColumn) -> dict[str, str]:
    metadata = {"meaning": column.meaning, "evidence": column.evidence.value}
    return metadata if column.unit is None else {**metadata, "unit": column.unit}

"""The NDJSON job on DuckDB: `ndjson_duckdb.py IN.ndjson OUT.csv`, for `cargo xtask bench-peers`."""

import sys

import duckdb

source, target = sys.argv[1:]
duckdb.sql("set threads = 2")
duckdb.sql(
    f"""copy (select user, sum(bytes) as sum
              from read_json('{source}', format = 'newline_delimited',
                             columns = {{user: 'varchar', status: 'int', bytes: 'bigint'}})
              where status = 200 group by user)
        to '{target}' (header)"""
)

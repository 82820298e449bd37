"""The NDJSON job on Polars: `ndjson_polars.py IN.ndjson OUT.csv`, for `cargo xtask bench-peers`."""

import sys

import polars as pl

source, target = sys.argv[1:]
columns = {"user": pl.String, "status": pl.Int32, "bytes": pl.Int64}
logs = pl.scan_ndjson(source, schema=columns).filter(pl.col("status") == 200)
logs.group_by("user").agg(pl.col("bytes").sum().alias("sum")).sink_csv(target)

"""The word count on Bytewax: `words_bytewax.py WORDS.txt OUT.txt`, for `cargo xtask bench-peers`."""

import sys

import bytewax.operators as op
from bytewax.connectors.files import FileSink, FileSource
from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main

source, target = sys.argv[1:]
flow = Dataflow("words")
lines = op.input("lines", flow, FileSource(source, batch_size=1000))
words = op.flat_map("split", lines, str.split)
counts = op.count_final("count", words, lambda word: word)
op.output("counts", op.map("text", counts, lambda it: (it[0], f"{it[0]},{it[1]}")), FileSink(target))
# Threads of one process share a lock; two are what the machine has cores.
cluster_main(flow, [], 0, worker_count_per_proc=2)

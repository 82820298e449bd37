//! The jobs that are simulated: one of a few shapes, with numbers drawn from the seed.

use serde_json::{Value, json};

use crate::rng::Rng;

/// How many shapes there are.
pub(super) const SHAPES: u64 = 5;

/// A job of one of the shapes.
pub(super) fn draw(rng: &mut Rng) -> Value {
    let n = rng.between(1, 400);
    let input = |seed: u64, rng: &mut Rng| {
        json!({"type": "input", "plugin": "rows", "count": n + seed, "salt": seed,
               "splits": rng.between(1, 6), "batch-size": rng.between(1, 64)})
    };
    let output = || json!({"type": "output", "plugin": "kept"});
    let (a, b) = (input(0, rng), input(7, rng));
    let pass = json!({"type": "function", "fn": "pass"});
    let count = json!({"type": "function", "fn": "count", "group-by": ["key"],
                       "partitions": rng.between(1, 9)});
    let sum = json!({"type": "function", "fn": "sum", "of": "n", "group-by": ["key"],
                     "partitions": rng.between(1, 9)});
    match rng.below(SHAPES) {
        // A chain.
        0 => json!({"name": "chain", "workflow": [["a", "f"], ["f", "out"]],
                    "catalog": {"a": a, "f": pass, "out": output()}}),
        // Groups.
        1 => json!({"name": "groups", "workflow": [["a", "f"], ["f", "g"], ["g", "out"]],
                    "catalog": {"a": a, "f": pass, "g": count, "out": output()}}),
        // Several inputs, several outputs.
        2 => json!({"name": "many", "workflow": [["a", "f"], ["b", "f"], ["f", "x"], ["f", "y"]],
                    "catalog": {"a": a, "b": b, "f": pass, "x": output(), "y": output()}}),
        // A diamond, with groups at its end.
        3 => json!({"name": "diamond",
                    "workflow": [["a", "l"], ["a", "r"], ["l", "g"], ["r", "g"], ["g", "out"]],
                    "catalog": {"a": a, "l": pass, "r": pass, "g": sum, "out": output()}}),
        // Groups of groups.
        _ => json!({"name": "twice",
                    "workflow": [["a", "g"], ["b", "g"], ["g", "h"], ["h", "out"]],
                    "catalog": {"a": a, "b": b, "g": count,
                                "h": {"type": "function", "fn": "max", "of": "count",
                                      "group-by": ["key"], "partitions": 3},
                                "out": output()}}),
    }
}

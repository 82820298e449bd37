//! The JSON schema of job files, for editors: what the checker knows, in their language.

use sardonyx::{Registry, registry::Kind};
use serde_json::{Value, json};

/// The schema, with the functions and plugins of this build.
pub(super) fn schema(registry: &Registry) -> Value {
    let positive = json!({"type": "integer", "minimum": 1});
    let percentage = json!({"type": "number", "minimum": 0, "maximum": 100});
    let duration = json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h)$"});
    let names = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let to = json!({"oneOf": [{"enum": ["all", "none"]}, names]});
    let known = |kind| {
        let mut names = registry.names(kind);
        names.push("wait");
        json!({"enum": names})
    };
    let is = |kind: &str| json!({"properties": {"type": {"const": kind}}, "required": ["type"]});
    let then = |key: &str, names: Value| json!({"properties": {key: names}, "required": [key]});
    let flow = json!({
        "type": "object",
        "required": ["from", "to"],
        "properties": {
            "from": {"type": "string"}, "to": to, "when": {"type": "string"},
            "fn": {"type": "string"}, "short-circuit": {"type": "boolean"},
            "exclude-keys": names, "exception": {"type": "boolean"}
        }
    });
    let task = json!({
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"enum": ["input", "function", "output"]},
            "fn": {"type": "string"}, "plugin": {"type": "string"}, "params": {},
            "batch-size": positive, "batch-timeout": duration, "trigger": duration,
            "max-peers": positive, "min-peers": positive, "percentage": percentage,
            "consumption": {"enum": ["concurrent", "sequential"]},
            "group-by": names, "partitions": positive,
            "compression": {"enum": ["none", "lz4", "zstd"]},
            "on-error": {"oneOf": [
                {"enum": ["kill", "skip"]},
                {"type": "object", "required": ["retry"], "properties": {"retry": positive}}
            ]},
            "dead-letters": {"type": "string"}
        },
        "allOf": [
            {"if": is("input"), "then": then("plugin", known(Kind::Input))},
            {"if": is("output"), "then": then("plugin", known(Kind::Output))},
            {"if": is("function"), "then": then("fn", json!({"type": "string"}))}
        ]
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sardonyx job",
        "type": "object",
        "required": ["name", "catalog"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "workflow": {
                "type": "array",
                "items": {
                    "type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2
                }
            },
            "catalog": {"type": "object", "additionalProperties": task},
            "task-scheduler": {"enum": ["greedy", "round-robin", "percentage"]},
            "percentage": percentage,
            "partial-coverage-protection": {"type": "boolean"},
            "flow": {"type": "array", "items": flow}
        }
    })
}

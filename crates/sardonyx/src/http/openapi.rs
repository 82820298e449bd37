//! The description of the API, made from the table of endpoints and the types that are sent.

use axum::Json;
use sardonyx_core::id::ID_BYTES_MAX;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::{
    guard::Rule,
    refusal::Refusal,
    routes::{self, Answer, Parameter, Route, Sent, Shape},
};

/// An OpenAPI 3.1 document.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    #[schema(value_type = Object)]
    document: Value,
}

pub(crate) async fn document() -> Json<Document> {
    Json(Document { document: describe() })
}

/// The whole document.
pub(super) fn describe() -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    keep(&mut schemas, &Shape::of::<Refusal>());
    for route in routes::table() {
        let operation = operation(&route, &mut schemas);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.verb.name()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sardonyx",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The cluster is a value: jobs, peers, the log, and any past of it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn keep(schemas: &mut Map<String, Value>, shape: &Shape) {
    for (name, schema) in &shape.schemas {
        schemas.insert(name.clone(), schema.clone());
    }
}

fn refer(shape: &Shape) -> Value {
    json!({ "$ref": format!("#/components/schemas/{}", shape.name) })
}

fn operation(route: &Route, schemas: &mut Map<String, Value>) -> Value {
    let mut operation = json!({
        "summary": route.about,
        "operationId": operation_id(route),
        "parameters": route.parameters.iter().map(|it| parameter(route, it)).collect::<Vec<_>>(),
        "responses": responses(route, schemas),
    });
    if let Rule::Role(role) = route.rule {
        operation["security"] = json!([{ "token": [] }, {}]);
        operation["x-role"] = json!(role.name());
    }
    match &route.sent {
        None => {}
        Some(Sent::Job) => {
            let text = json!({ "schema": { "type": "string" } });
            let object = json!({ "schema": { "type": "object" } });
            let content = json!({ "application/toml": text, "application/json": object });
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        Some(Sent::Json(shape)) => {
            keep(schemas, shape);
            let content = json!({ "application/json": { "schema": refer(shape) } });
            operation["requestBody"] = json!({ "required": false, "content": content });
        }
    }
    operation
}

fn operation_id(route: &Route) -> String {
    let path = route.path.replace(['{', '}'], "").replace(['/', '.'], "-");
    format!("{}{path}", route.verb.name())
}

fn parameter(route: &Route, parameter: &Parameter) -> Value {
    let is_in_path = route.path.contains(&format!("{{{}}}", parameter.name));
    let mut schema = json!({ "type": parameter.kind });
    if parameter.kind == "integer" {
        let (least, most) = parameter.bounds.unwrap_or((0, u64::MAX));
        (schema["minimum"], schema["maximum"]) = (json!(least), json!(most));
    }
    if matches!(parameter.name, "job" | "id") {
        schema["minLength"] = json!(1);
        schema["maxLength"] = json!(ID_BYTES_MAX);
        schema["pattern"] = json!(r"^[^\u0000-\u001f\u007f-\u009f]+$");
    }
    json!({
        "name": parameter.name,
        "in": if is_in_path { "path" } else { "query" },
        "required": is_in_path || parameter.is_required,
        "description": parameter.about,
        "schema": schema,
    })
}

fn responses(route: &Route, schemas: &mut Map<String, Value>) -> Value {
    let content = match &route.answer {
        Answer::Json(shape) => {
            keep(schemas, shape);
            json!({ "application/json": { "schema": refer(shape) } })
        }
        // Some readers hold a schema against the whole stream, some against each event of it, and this
        // version of OpenAPI does not say who is right.
        Answer::Text(kind @ "text/event-stream") => json!({ *kind: {} }),
        Answer::Text(kind) => json!({ *kind: { "schema": { "type": "string" } } }),
    };
    let mut all = json!({ "200": { "description": "All is well.", "content": content } });
    let general: &[u16] = match route.rule {
        Rule::Anyone => &[],
        Rule::Page => &[403, 421],
        Rule::Role(_) => &[400, 401, 403, 421],
    };
    let of_body: &[u16] = if route.sent.is_some() { &[400, 408, 413, 415] } else { &[] };
    for code in general.iter().chain(of_body).chain(route.refusals) {
        let reference = json!({ "$ref": "#/components/schemas/Refusal" });
        let content = match route.rule {
            Rule::Anyone => json!({ "text/plain": { "schema": { "type": "string" } } }),
            Rule::Page | Rule::Role(_) => json!({ "application/json": { "schema": reference } }),
        };
        all[code.to_string()] = json!({ "description": meaning(*code), "content": content });
    }
    all
}

fn meaning(code: u16) -> &'static str {
    match code {
        400 => "The request makes no sense.",
        401 => "A token is needed, and this is none of ours.",
        403 => "Your role does not suffice, or a page of another site asks.",
        404 => "There is no such thing.",
        408 => "The body did not come in time.",
        409 => "The cluster rejected it; nothing was changed.",
        410 => "That far back nothing is known here.",
        413 => "The body is too large.",
        415 => "The body is of another kind than what is understood.",
        421 => "This server is not known by that name.",
        422 => "The job has faults, each of which is named.",
        503 => "Not now; try again.",
        _ => "Refused.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_every_endpoint_is_described() {
        let document = describe();
        let text = document.to_string();
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "no schema {name}");
        }
        for route in routes::table() {
            let operation = &document["paths"][route.path][route.verb.name()];
            assert_eq!(operation["summary"], route.about);
            let named = route.path.matches('{').count();
            let described = operation["parameters"].as_array().unwrap();
            let in_path = described.iter().filter(|it| it["in"] == "path").count();
            assert_eq!(named, in_path, "{}", route.path);
        }
    }
}

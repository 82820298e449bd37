//! From text to a value, whichever language it is written in.

use serde_json::Value;

use super::{Complaint, JOB_BYTES_MAX, Language};

pub(super) fn read(text: &str, language: Language) -> Result<Value, Complaint> {
    let whole = |what: String| Complaint { place: String::new(), what };
    if text.len() > JOB_BYTES_MAX {
        let len = text.len();
        return Err(whole(format!("a job has at most {JOB_BYTES_MAX} bytes, this one has {len}")));
    }
    match language {
        Language::Json => {
            serde_json::from_str(text).map_err(|why| whole(format!("this is no JSON: {why}")))
        }
        Language::Toml => {
            let table: toml::Table =
                toml::from_str(text).map_err(|why| whole(format!("this is no TOML: {why}")))?;
            convert("", toml::Value::Table(table))
        }
    }
}

/// TOML has two things that JSON has not: times, and numbers that are none.
fn convert(place: &str, value: toml::Value) -> Result<Value, Complaint> {
    let below = |key: &str| if place.is_empty() { key.into() } else { format!("{place}.{key}") };
    let complain = |what: &str| Complaint { place: place.into(), what: what.into() };
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => serde_json::Number::from_f64(number)
            .ok_or_else(|| complain("this is not a number; write one"))?
            .into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(time) => {
            return Err(complain(&format!("write the time as a text: \"{time}\"")));
        }
        toml::Value::Array(values) => values
            .into_iter()
            .enumerate()
            .map(|(at, value)| convert(&format!("{place}[{at}]"), value))
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        toml::Value::Table(table) => table
            .into_iter()
            .map(|(key, value)| {
                let value = convert(&below(&key), value)?;
                Ok((key, value))
            })
            .collect::<Result<serde_json::Map<_, _>, _>>()?
            .into(),
    })
}

//! The description of the API, and whether an answer is as it says.

use serde_json::Value;

pub(crate) const OPEN_API: &str = include_str!("../../../src/console/openapi.json");

pub(crate) struct Description(Value);

/// An address with a method.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: String,
    /// With `{session}` in it.
    pub(crate) path: String,
    pub(crate) is_public: bool,
}

impl Description {
    pub(crate) fn read() -> Self {
        Self(serde_json::from_str(OPEN_API).unwrap())
    }

    pub(crate) fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for (path, methods) in self.0["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                operations.push(Operation {
                    method: method.to_uppercase(),
                    path: path.clone(),
                    is_public: operation["security"].as_array().is_some_and(Vec::is_empty),
                });
            }
        }
        operations
    }

    /// What is wrong with an answer; nothing if it is as described.
    pub(crate) fn faults(&self, method: &str, path: &str, status: u16, body: &str) -> Vec<String> {
        let operation = &self.0["paths"][path][method.to_lowercase()];
        let response = &operation["responses"][status.to_string()];
        if response.is_null() {
            return vec![format!("{method} {path}: {status} is not described: {body}")];
        }
        let Some(content) = response["content"].as_object() else { return Vec::new() };
        let Some(schema) = content.get("application/json").map(|media| &media["schema"]) else {
            return Vec::new();
        };
        let value = match serde_json::from_str(body) {
            Ok(value) => value,
            Err(error) => return vec![format!("{method} {path}: {error}: {body}")],
        };
        let mut faults = Vec::new();
        self.compare(schema, &value, &format!("{method} {path} {status}"), &mut faults);
        faults
    }

    /// What is wrong with an event.
    pub(crate) fn event_faults(&self, data: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let event = serde_json::from_str(data).unwrap();
        self.compare(&self.0["components"]["schemas"]["Event"], &event, "event", &mut faults);
        faults
    }

    fn compare(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap();
            let schema = &self.0["components"]["schemas"][name];
            assert!(schema.is_object(), "{reference} is described");
            return self.compare(schema, value, at, faults);
        }
        for all in schema["allOf"].as_array().into_iter().flatten() {
            self.compare(all, value, at, faults);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            let fits = |schema: &Value| {
                let mut faults = Vec::new();
                self.compare(schema, value, at, &mut faults);
                faults.is_empty()
            };
            if !any.iter().any(fits) {
                faults.push(format!("{at}: {value} fits nothing"));
            }
            return;
        }
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let is_number = kind == "integer" && kinds.contains(&"number");
        if !kinds.is_empty() && !kinds.contains(&kind) && !is_number {
            faults.push(format!("{at}: {value} is {kind}, not {kinds:?}"));
            return;
        }
        if let Some(known) = schema["enum"].as_array()
            && !known.contains(value)
        {
            faults.push(format!("{at}: {value} is none of {known:?}"));
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.compare(&schema["items"], item, &format!("{at}[{index}]"), faults);
        }
        let (Some(fields), Some(properties)) =
            (value.as_object(), schema["properties"].as_object())
        else {
            return;
        };
        for name in schema["required"].as_array().into_iter().flatten() {
            if !fields.contains_key(name.as_str().unwrap()) {
                faults.push(format!("{at}: {name} is missing"));
            }
        }
        for (name, field) in fields {
            match properties.get(name) {
                Some(schema) => self.compare(schema, field, &format!("{at}.{name}"), faults),
                None => faults.push(format!("{at}: {name} is not described")),
            }
        }
    }
}

#[test]
fn what_is_not_described_is_found() {
    let description = Description::read();
    let path = "/longhand/api/v1/me";
    let me =
        r#"{"version":"1","archive":null,"owner":"key","read_only":false,"proxy":true,"budget":7}"#;
    assert_eq!(description.faults("GET", path, 200, me), Vec::<String>::new());
    for (wrong, status) in [
        (me.replace("\"key\"", "\"other\""), 200),
        (me.replace("false", "0"), 200),
        (me.replace("\"proxy\":true,", ""), 200),
        (me.replace("\"budget\":7", "\"budget\":7,\"more\":1"), 200),
        (me.replace('{', ""), 200),
        (me.to_owned(), 418),
        (me.to_owned(), 401),
    ] {
        assert!(!description.faults("GET", path, status, &wrong).is_empty(), "{wrong}");
    }
}

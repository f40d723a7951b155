//! The tools that an agent offers, as far as the model of the tests uses them.

use longhand_testkit::WireFormat;
use longhand_testkit::scripted::ScriptedCall;
use serde_json::{Map, Value, json};

use crate::task::TaskAction;

/// The tools of a request.
pub(crate) struct Kit {
    /// Names, and the schemas of their arguments.
    tools: Vec<(String, Value)>,
    cuts_outputs: bool,
}

impl Kit {
    pub(crate) fn of(wire: WireFormat, body: &Value, cuts_outputs: bool) -> Self {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let tool = |tool: Value| {
            let function = if wire == WireFormat::Chat { tool["function"].clone() } else { tool };
            let schema = ["parameters", "input_schema"].map(|key| function[key].clone());
            let schema = schema.into_iter().find(Value::is_object)?;
            Some((function["name"].as_str()?.to_owned(), schema))
        };
        Self { tools: tools.into_iter().filter_map(tool).collect(), cuts_outputs }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    fn find(&self, names: &[&str]) -> Option<&(String, Value)> {
        let is = |tool: &str, name: &&str| tool.eq_ignore_ascii_case(name);
        names.iter().find_map(|name| self.tools.iter().find(|(tool, _)| is(tool, name)))
    }

    /// The call that does something; `None` if the agent cannot.
    pub(crate) fn call(&self, action: &TaskAction, folder: &str, id: &str) -> Option<ScriptedCall> {
        let path = |path: &str| json!(format!("{folder}/{path}"));
        match action {
            TaskAction::Read(file) => {
                let fields = [("path", path(file))];
                self.made(&["read"], &fields, id).or_else(|| self.run(&format!("cat {file}"), id))
            }
            TaskAction::Edit { path: file, old, new } => {
                let fields = [("path", path(file)), ("old", json!(old)), ("new", json!(new))];
                let command = format!("sed -i 's/{old}/{new}/' {file} && echo edited {file}");
                self.made(&["edit"], &fields, id).or_else(|| self.run(&command, id))
            }
            // Where the middle of an output is cut out, a model asks for the part that it wants to see.
            TaskAction::Check(log) if self.cuts_outputs => {
                self.run(&format!("sh check.sh {log} | grep -C 40 FATAL"), id)
            }
            TaskAction::Check(log) => self.run(&format!("sh check.sh {log}"), id),
            TaskAction::Tasks(tasks) => self.tasks(tasks, id),
            TaskAction::Delegate(prompt) => {
                let fields = [("prompt", json!(prompt))];
                self.made(&["task", "agent"], &fields, id)
            }
            TaskAction::Look(file) => {
                let (name, _) = self.find(&["read", "view_image"])?;
                self.made(&[name], &[("path", path(file))], id)
            }
            TaskAction::Say(_) => None,
        }
    }

    /// The call that says a word, and nothing else.
    pub(crate) fn submit(&self, word: &str, id: &str) -> Option<ScriptedCall> {
        self.run(&format!("echo {word}"), id)
    }

    fn run(&self, command: &str, id: &str) -> Option<ScriptedCall> {
        let names = ["bash", "exec_command", "shell", "shell_command", "run"];
        self.made(&names, &[("command", json!(command))], id)
    }

    fn tasks(&self, tasks: &[(String, &str)], id: &str) -> Option<ScriptedCall> {
        if let Some((name, _)) = self.find(&["todowrite"]) {
            let todo = |(at, (text, status)): (usize, &(String, &str))| {
                json!({"id": at.to_string(), "content": text, "status": status, "priority": "medium",
                    "activeForm": text})
            };
            let todos: Vec<Value> = tasks.iter().enumerate().map(todo).collect();
            return Some(call(name, json!({"todos": todos}), id));
        }
        let (name, _) = self.find(&["update_plan"])?;
        let step = |(text, status): &(String, &str)| json!({"step": text, "status": status});
        let plan: Vec<Value> = tasks.iter().map(step).collect();
        Some(call(name, json!({"plan": plan}), id))
    }

    /// A call with what its schema asks for: fields are known by their names, others get something.
    fn made(&self, names: &[&str], fields: &[(&str, Value)], id: &str) -> Option<ScriptedCall> {
        let (name, schema) = self.find(names)?;
        let properties = schema["properties"].as_object()?;
        let mut arguments = Map::new();
        for (kind, value) in fields {
            let known = |name: &&String| KNOWN.iter().any(|(is, key)| is == kind && key == name);
            let (key, schema) = properties.iter().find(|(key, _)| known(key))?;
            let is_list = schema["type"] == "array";
            let value = if is_list { json!(["bash", "-lc", value]) } else { value.clone() };
            arguments.insert(key.clone(), value);
        }
        for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let kind =
                properties.get(key).map(|property| property["type"].clone()).unwrap_or_default();
            let value = match (key, kind.as_str()) {
                ("subagent_type", _) => json!("general-purpose"),
                (_, Some("number" | "integer")) => json!(120),
                (_, Some("boolean")) => json!(false),
                (_, Some("array")) => json!([]),
                _ => json!("as planned"),
            };
            arguments.entry(key).or_insert(value);
        }
        if let Some(kind) = arguments.get_mut("subagent_type")
            && !self.tools.iter().any(|(_, schema)| schema.to_string().contains("general-purpose"))
            && name == "task"
        {
            *kind = json!("general");
        }
        Some(call(name, Value::Object(arguments), id))
    }
}

/// What the fields of tools are called.
const KNOWN: &[(&str, &str)] = &[
    ("path", "file_path"),
    ("path", "filePath"),
    ("path", "path"),
    ("old", "old_string"),
    ("old", "oldString"),
    ("old", "oldText"),
    ("new", "new_string"),
    ("new", "newString"),
    ("new", "newText"),
    ("command", "command"),
    ("command", "cmd"),
    ("prompt", "prompt"),
];

fn call(name: &str, arguments: Value, id: &str) -> ScriptedCall {
    ScriptedCall { id: id.to_owned(), name: name.to_owned(), arguments }
}

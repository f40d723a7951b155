//! Where models are, and how a name finds one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use longhand_dialect::Dialect;

use crate::{Secret, http};

/// The way to speak to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// `OpenAI` Chat Completions, which most servers understand.
    Chat,
    /// `OpenAI` Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
}

impl Api {
    /// The wire format of requests and answers.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Chat => Dialect::Chat,
            Self::Responses => Dialect::Responses,
            Self::Anthropic => Dialect::Anthropic,
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Responses => "responses",
            Self::Anthropic => "messages",
        }
    }
}

impl FromStr for Api {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "chat" => Ok(Self::Chat),
            "responses" => Ok(Self::Responses),
            "anthropic" => Ok(Self::Anthropic),
            _ => Err(format!("unknown API `{name}`; known are chat, responses, anthropic")),
        }
    }
}

/// A server that has models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name by which models are asked of it.
    pub name: String,
    /// The way to speak to it.
    pub api: Api,
    /// Its address, up to `/v1`.
    pub base_url: String,
    /// The key that it wants.
    pub key: Option<Secret>,
    /// The environment variable that the key is taken from, if it cannot do without one.
    pub key_variable: Option<String>,
}

impl Endpoint {
    /// An endpoint without a key.
    pub fn new(name: &str, api: Api, base_url: &str) -> Self {
        Self {
            name: name.to_owned(),
            api,
            base_url: base_url.to_owned(),
            key: None,
            key_variable: None,
        }
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        http::parse(&self.base_url).is_ok_and(|uri| http::is_loopback(&uri))
    }
}

/// A model's name with its provider: `anthropic/claude-haiku-4-5`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedModelName {
    /// The part before the first slash.
    pub provider: String,
    /// All after it; it may have slashes of its own.
    pub model: String,
}

impl QualifiedModelName {
    /// Takes a name apart.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        match name.trim().split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(NameError::NoProvider { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for QualifiedModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

/// A model at its endpoint.
#[derive(Clone, Debug)]
pub struct Model {
    /// Where it is.
    pub endpoint: Arc<Endpoint>,
    /// What the endpoint calls it.
    pub name: String,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.endpoint.name, self.name)
    }
}

/// Why a name finds no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// It does not say where the model is.
    #[error("`{name}` names no provider; write provider/model, such as ollama/qwen3")]
    NoProvider {
        /// The name.
        name: String,
    },
    /// Its provider is not known.
    #[error("unknown provider `{provider}`; known are {known}")]
    UnknownProvider {
        /// The provider.
        provider: String,
        /// The names of those that are known.
        known: String,
    },
    /// The provider wants a key and there is none.
    #[error("{provider} wants a key; set {variable}")]
    NoKey {
        /// The provider.
        provider: String,
        /// The environment variable that it is taken from.
        variable: String,
    },
}

/// All endpoints that names can refer to.
#[derive(Clone, Debug, Default)]
pub struct Endpoints {
    list: Vec<Arc<Endpoint>>,
}

impl Endpoints {
    /// The well-known ones. `key` is asked for each key by the name of its environment variable.
    ///
    /// ```
    /// use longhand_model::Endpoints;
    ///
    /// let endpoints = Endpoints::known(|_| None);
    /// assert_eq!(endpoints.model("ollama/qwen3")?.to_string(), "ollama/qwen3");
    /// let error = endpoints.model("openai/gpt-4o").unwrap_err();
    /// assert_eq!(error.to_string(), "openai wants a key; set OPENAI_API_KEY");
    /// # Ok::<(), longhand_model::NameError>(())
    /// ```
    pub fn known(key: impl Fn(&str) -> Option<String>) -> Self {
        let mut endpoints = Self::default();
        for (name, api, base_url, variable) in [
            ("openai", Api::Chat, "https://api.openai.com/v1", "OPENAI_API_KEY"),
            ("anthropic", Api::Anthropic, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"),
            ("openrouter", Api::Chat, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
            ("ollama", Api::Chat, "http://127.0.0.1:11434/v1", ""),
            ("llamacpp", Api::Chat, "http://127.0.0.1:8080/v1", ""),
            ("vllm", Api::Chat, "http://127.0.0.1:8000/v1", ""),
            ("lmstudio", Api::Chat, "http://127.0.0.1:1234/v1", ""),
        ] {
            let mut endpoint = Endpoint::new(name, api, base_url);
            if !variable.is_empty() {
                endpoint.key = key(variable).and_then(|key| Secret::new(&key));
                endpoint.key_variable = Some(variable.to_owned());
            }
            endpoints.insert(endpoint);
        }
        endpoints
    }

    /// Adds an endpoint; one of the same name gives way.
    pub fn insert(&mut self, endpoint: Endpoint) {
        match self.list.iter_mut().find(|known| known.name == endpoint.name) {
            Some(known) => *known = Arc::new(endpoint),
            None => self.list.push(Arc::new(endpoint)),
        }
    }

    /// The endpoint of a name.
    pub fn get(&self, name: &str) -> Option<&Endpoint> {
        self.list.iter().find(|endpoint| endpoint.name == name).map(AsRef::as_ref)
    }

    /// All of them, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Endpoint> {
        self.list.iter().map(AsRef::as_ref)
    }

    /// Finds the model of a name.
    pub fn model(&self, name: &str) -> Result<Model, NameError> {
        let QualifiedModelName { provider, model } = QualifiedModelName::parse(name)?;
        let Some(endpoint) = self.list.iter().find(|endpoint| endpoint.name == provider) else {
            let known: Vec<&str> =
                self.list.iter().map(|endpoint| endpoint.name.as_str()).collect();
            return Err(NameError::UnknownProvider { provider, known: known.join(", ") });
        };
        match (&endpoint.key, &endpoint.key_variable) {
            (None, Some(variable)) => {
                Err(NameError::NoKey { provider, variable: variable.clone() })
            }
            _ => Ok(Model { endpoint: Arc::clone(endpoint), name: model }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_picks_the_endpoint() {
        let endpoints = Endpoints::known(|variable| Some(format!("key of {variable}")));
        for (name, api, host, model) in [
            ("openai/gpt-4o", Api::Chat, "api.openai.com", "gpt-4o"),
            ("anthropic/claude-haiku-4-5", Api::Anthropic, "api.anthropic.com", "claude-haiku-4-5"),
            ("openrouter/qwen/qwen3:free", Api::Chat, "openrouter.ai", "qwen/qwen3:free"),
            ("ollama/qwen3", Api::Chat, "127.0.0.1:11434", "qwen3"),
            ("llamacpp/any", Api::Chat, "127.0.0.1:8080", "any"),
            ("vllm/org/model", Api::Chat, "127.0.0.1:8000", "org/model"),
            ("lmstudio/m", Api::Chat, "127.0.0.1:1234", "m"),
        ] {
            let found = endpoints.model(name).unwrap();
            assert_eq!((found.endpoint.api, found.name.as_str()), (api, model), "{name}");
            assert!(found.endpoint.base_url.contains(host), "{name}");
            assert_eq!(found.endpoint.is_loopback(), host.starts_with("127"), "{name}");
            assert_eq!(found.to_string(), name);
        }
    }

    #[test]
    fn a_name_that_finds_nothing_says_why() {
        let mut endpoints = Endpoints::known(|_| None);
        endpoints.insert(Endpoint::new("mine", Api::Responses, "http://10.0.0.1/v1"));
        let error = |name: &str| endpoints.model(name).unwrap_err().to_string();
        assert_eq!(
            error("nobody/x"),
            "unknown provider `nobody`; known are openai, anthropic, openrouter, ollama, llamacpp, vllm, lmstudio, mine"
        );
        assert!(error("gpt-4o").starts_with("`gpt-4o` names no provider"));
        assert!(error("/x").contains("names no provider") && error("x/").contains("names no"));
        assert_eq!(error("anthropic/claude"), "anthropic wants a key; set ANTHROPIC_API_KEY");
        assert_eq!(endpoints.model("mine/x").unwrap().endpoint.api, Api::Responses);
    }

    #[test]
    fn a_named_endpoint_takes_the_place_of_a_known_one() {
        let mut endpoints = Endpoints::known(|_| None);
        let count = endpoints.iter().count();
        endpoints.insert(Endpoint::new("openai", Api::Responses, "http://localhost:1/v1"));
        assert_eq!(endpoints.iter().count(), count);
        assert!(endpoints.model("openai/x").unwrap().endpoint.is_loopback());
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (url, expected) in [
            ("http://127.0.0.2:9/v1", true),
            ("http://[::1]:9/v1", true),
            ("http://localhost", true),
            ("http://localhost.example.com", false),
            ("https://10.0.0.1", false),
            ("nonsense", false),
        ] {
            assert_eq!(Endpoint::new("x", Api::Chat, url).is_loopback(), expected, "{url}");
        }
    }
}

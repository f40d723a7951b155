//! The addresses of the API: the one table that requests, tests and the description are compared with.

use hyper::Method;

use super::query::segment;
use super::response::Refusal;

/// How all addresses begin.
pub(super) const ROOT: &str = "/longhand/api/v1";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Login,
    Logout,
    Me,
    OpenApi,
    Sessions,
    Search,
    Session,
    Kin,
    Map,
    Requests,
    Messages,
    Window,
    Log,
    Payoff,
    Regret,
    Pins,
    Pin,
    Undo,
    SessionFindings,
    Export,
    Expand,
    Usage,
    Findings,
    Events,
}

/// An address of the API with what it answers; `*` stands for a session.
pub(super) struct ApiRoute {
    pub(super) path: &'static str,
    pub(super) get: Option<Question>,
    pub(super) post: Option<Question>,
}

const fn get(path: &'static str, question: Question) -> ApiRoute {
    ApiRoute { path, get: Some(question), post: None }
}

const fn post(path: &'static str, question: Question) -> ApiRoute {
    ApiRoute { path, get: None, post: Some(question) }
}

/// All of them.
pub(super) const ROUTES: &[ApiRoute] = &[
    post("/login", Question::Login),
    post("/logout", Question::Logout),
    get("/me", Question::Me),
    get("/openapi.json", Question::OpenApi),
    get("/sessions", Question::Sessions),
    get("/search", Question::Search),
    get("/sessions/*", Question::Session),
    get("/sessions/*/kin", Question::Kin),
    get("/sessions/*/map", Question::Map),
    get("/sessions/*/requests", Question::Requests),
    get("/sessions/*/messages", Question::Messages),
    get("/sessions/*/window", Question::Window),
    get("/sessions/*/log", Question::Log),
    get("/sessions/*/payoff", Question::Payoff),
    get("/sessions/*/regret", Question::Regret),
    ApiRoute { path: "/sessions/*/pins", get: Some(Question::Pins), post: Some(Question::Pin) },
    post("/sessions/*/undo", Question::Undo),
    get("/sessions/*/findings", Question::SessionFindings),
    get("/sessions/*/export", Question::Export),
    get("/expand", Question::Expand),
    get("/usage", Question::Usage),
    get("/findings", Question::Findings),
    get("/events", Question::Events),
];

/// What a request asks, and of which session.
pub(super) fn question(method: &Method, path: &str) -> Result<(Question, String), Refusal> {
    let path = path.strip_prefix(ROOT).unwrap_or_default();
    let found = ROUTES.iter().find_map(|route| Some((route, session_in(route.path, path)?)));
    let (route, session) = found.ok_or_else(|| Refusal::not_found("there is no such address"))?;
    let question = match *method {
        Method::GET => route.get,
        Method::POST => route.post,
        _ => None,
    };
    let allow = match (route.get, route.post) {
        (Some(_), Some(_)) => "GET, POST",
        (Some(_), None) => "GET",
        _ => "POST",
    };
    let question = question.ok_or_else(|| Refusal::method(allow))?;
    Ok((question, segment(session)?))
}

/// The session in a path that is of a form; empty if the form has none.
fn session_in<'p>(form: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = form.split_once('*') else {
        return (form == path).then_some("");
    };
    let session = path.strip_prefix(before)?.strip_suffix(after)?;
    (!session.is_empty() && !session.contains('/')).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &Method, path: &str) -> Option<(Question, String)> {
        question(method, &format!("{ROOT}{path}")).ok()
    }

    #[test]
    fn each_address_has_its_question() {
        for (path, expected) in [
            ("/sessions", Some((Question::Sessions, ""))),
            ("/sessions/abc", Some((Question::Session, "abc"))),
            ("/sessions/fix%20it%2Fnow+", Some((Question::Session, "fix it/now+"))),
            ("/sessions/abc/window", Some((Question::Window, "abc"))),
            ("/sessions/abc/pins", Some((Question::Pins, "abc"))),
            ("/sessions/", None),
            ("/sessions//window", None),
            ("/sessions/a/b/window", None),
            ("/sessions/%ff", None),
            ("/me/", None),
            ("/nothing", None),
            ("", None),
        ] {
            let expected = expected.map(|(question, name)| (question, name.to_owned()));
            assert_eq!(asked(&Method::GET, path), expected, "{path}");
        }
        assert_eq!(
            asked(&Method::POST, "/sessions/a/pins").map(|asked| asked.0),
            Some(Question::Pin)
        );
        assert_eq!(asked(&Method::DELETE, "/sessions/a/pins"), None);
        assert_eq!(asked(&Method::GET, "/sessions/a/undo"), None);
    }
}

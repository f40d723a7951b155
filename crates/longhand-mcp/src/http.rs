//! One message of a client over HTTP, and its answer.
//!
//! No session is kept between messages, so a restart, another node and a client that goes away leave nothing behind. Who
//! may ask, and how much, is the matter of the server around it.

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientRequest, ErrorCode, GetMeta, Implementation,
    InitializeRequestParams, JsonRpcRequest, ProtocolVersion, ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, serve_directly};
use rmcp::transport::OneshotTransport;
use serde_json::{Value, json};

use crate::ArchiveServer;

/// The header in which a client names the version that it speaks.
pub const VERSION_HEADER: &str = "mcp-protocol-version";

/// An answer as HTTP has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The body, which is JSON; `None` for a message that gets no answer.
    pub body: Option<String>,
}

impl HttpAnswer {
    /// An error of the protocol.
    pub fn error(status: u16, id: &Value, code: i32, message: &str) -> Self {
        let error = json!({"code": code, "message": message});
        let body = json!({"jsonrpc": "2.0", "id": id, "error": error});
        Self { status, body: Some(body.to_string()) }
    }

    fn of(status: u16, message: &ServerJsonRpcMessage) -> Self {
        let body = serde_json::to_string(message);
        body.map_or_else(|_| broken(&Value::Null), |body| Self { status, body: Some(body) })
    }
}

fn broken(id: &Value) -> HttpAnswer {
    let message = "something failed in Longhand; the archive is unharmed";
    HttpAnswer::error(500, id, ErrorCode::INTERNAL_ERROR.0, message)
}

impl ArchiveServer {
    /// Answers one message; `version` is what its header [`VERSION_HEADER`] says.
    pub async fn answer(&self, message: &[u8], version: Option<&str>) -> HttpAnswer {
        let invalid = |status, id: &Value, why: &str| {
            HttpAnswer::error(status, id, ErrorCode::INVALID_REQUEST.0, why)
        };
        let Ok(message) = serde_json::from_slice::<Value>(message) else {
            let why = "the message is not JSON";
            return HttpAnswer::error(400, &Value::Null, ErrorCode::PARSE_ERROR.0, why);
        };
        if message.is_array() {
            return invalid(400, &Value::Null, "send one message at a time");
        }
        let id = match &message["id"] {
            id @ (Value::Number(_) | Value::String(_)) => id.clone(),
            _ => Value::Null,
        };
        match serde_json::from_value::<ClientJsonRpcMessage>(message) {
            Ok(ClientJsonRpcMessage::Request(request)) => self.respond(request, version, &id).await,
            Ok(ClientJsonRpcMessage::Notification(_)) => HttpAnswer { status: 202, body: None },
            Ok(_) => invalid(400, &id, "nothing was asked of the client"),
            Err(_) => invalid(400, &id, "the message is none of MCP"),
        }
    }

    async fn respond(
        &self,
        request: JsonRpcRequest<ClientRequest>,
        version: Option<&str>,
        id: &Value,
    ) -> HttpAnswer {
        let of_request = request.request.get_meta().protocol_version();
        let known = |version: &str| {
            ProtocolVersion::KNOWN_VERSIONS.iter().find(|one| one.as_str() == version)
        };
        let of_header = match version {
            None => &ProtocolVersion::V_2025_03_26,
            Some(version) => match known(version) {
                Some(version) => version,
                // The handler says which versions it takes.
                None if of_request.is_some() => &ProtocolVersion::V_2025_03_26,
                None => {
                    let why = format!("the version {version:?} is not known");
                    return HttpAnswer::error(400, id, ErrorCode::INVALID_REQUEST.0, &why);
                }
            },
        };
        let peer_version = match &request.request {
            ClientRequest::InitializeRequest(hello) => hello.params.protocol_version.clone(),
            _ => of_header.clone(),
        };
        let negotiates =
            of_request.is_some() || matches!(&request.request, ClientRequest::DiscoverRequest(_));
        if let Some(of_request) = of_request
            && Some(of_request.as_str()) != version
        {
            let error =
                ErrorData::header_mismatch("the header and the request name two versions", None);
            return HttpAnswer::error(400, id, error.code.0, &error.message);
        }
        let client =
            InitializeRequestParams::new(ClientCapabilities::default(), Implementation::default())
                .with_protocol_version(peer_version);
        let (transport, mut answers) =
            OneshotTransport::<RoleServer>::new(ClientJsonRpcMessage::Request(request));
        // It ends when this is dropped: the client may go away.
        let _running = serve_directly(self.clone(), transport, Some(client));
        while let Some(answer) = answers.recv().await {
            match &answer {
                ServerJsonRpcMessage::Response(_) => return HttpAnswer::of(200, &answer),
                ServerJsonRpcMessage::Error(error) => {
                    let status = if negotiates { status(error.error.code) } else { 200 };
                    return HttpAnswer::of(status, &answer);
                }
                _ => {}
            }
        }
        broken(id)
    }
}

/// The status of an error where the client names its version with each request.
fn status(code: ErrorCode) -> u16 {
    match code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
        | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        | ErrorCode::HEADER_MISMATCH
        | ErrorCode::INVALID_PARAMS => 400,
        ErrorCode::METHOD_NOT_FOUND => 404,
        _ => 200,
    }
}

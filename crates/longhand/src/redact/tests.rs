//! Every rule with an example that must be found and one that must not.

use longhand_meter::{ImageProvider, ImageRule, MeterSpec};
use serde_json::{Value, json};

use super::*;

/// For each rule, in the order of the list: a text with a secret in `«»`, and a text without.
///
/// `<a32>` stands for 32 small letters and digits, `<A32>` for letters and digits, `<h32>` for hexadecimal
/// digits and `<U32>` for capitals: a key that was written out here would alarm those who look for keys.
const EXAMPLES: &[(&str, &str, &str)] = &[
    (
        "private-key",
        "-----BEGIN RSA PRIVATE KEY-----«\nProc-Type: 4,ENCRYPTED\n\n<A64>\n<A64>\n»-----END RSA PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n<A64>\n-----END PUBLIC KEY-----",
    ),
    (
        "private-key",
        "…\n«<A64>\n<A64>\n»-----END OPENSSH PRIVATE KEY-----",
        "It ends with -----END OPENSSH PRIVATE KEY-----",
    ),
    ("private-key", "«AGE-SECRET-KEY-1<U58>»", "AGE-SECRET-KEY-1 is how it begins"),
    ("authorization", "Authorization: Bearer «<A24>»", "Authorization: Bearer $TOKEN_OF_MINE"),
    ("bearer", "curl -H 'X: bearer «<A24>»'", "the bearer of-good-news-from-afar came"),
    ("api-key", "x-api-key: «<a20>»", "x-api-key: {api_key_here}"),
    ("url-password", "postgres://admin:«hunter2»@db:5432/app", "https://example.com:8080/a@b"),
    ("password", "DB_PASSWORD=«hunter2!»", "password = getpass()"),
    ("password", r#"{"password": "«correct horse»"}"#, r#"{"password": "string"}"#),
    ("password", "the root password is «Tr0ub4dor»", "the password is wrong, try another"),
    (
        "password",
        "curl -u admin:«hunter2» https://example.com",
        "curl -u $USER https://example.com",
    ),
    ("assigned-key", "client_secret: '«<A32>»'", "token = session.next_token_of_the_page"),
    ("anthropic", "«sk-ant-api03-<A90>»", "sk-ant-colony"),
    ("openrouter", "«sk-or-v1-<h64>»", "sk-or-nothing"),
    ("openai", "use «sk-proj-<A48>», please", "a sk-ill-that-is-no-key-at-all"),
    ("groq", "«gsk_<A52>»", "gsk_short"),
    ("xai", "«xai-<A80>»", "xai-grok"),
    ("perplexity", "«pplx-<A48>»", "pplx-api"),
    ("hugging-face", "«hf_<A34>»", "hf_hub_download"),
    ("replicate", "«r8_<A37>»", "r8_model"),
    ("fireworks", "«fw_<A24>»", "fw_update"),
    ("tavily", "«tvly-dev-<A32>»", "tvly-x"),
    ("langsmith", "«lsv2_pt_<h32>_<h10>»", "lsv2_pt"),
    ("aws-access-key", "«AKIA<U16>»", "AKIAHABARA"),
    ("aws-secret", "aws_secret_access_key = «<A40>»", "aws secret key rotation is due"),
    ("aws-bedrock", "«ABSK<A80>=»", "ABSKY"),
    ("google", "«AIza<A35>»", "AIza"),
    ("google-oauth", "«ya29.<A40>»", "ya29.x"),
    ("google-oauth", "«GOCSPX-<A28>»", "GOCSPX-"),
    ("azure", "AccountName=a;AccountKey=«<A86>==»;", "AccountKey=<key>"),
    ("azure", "secret «<A3>8Q~<A32>»", "a8Q~b"),
    ("azure", "https://a.blob.core.windows.net/c?sv=1&sig=«<A43>%3D»", "?sig=none"),
    ("azure", "«<A76>AZ<A6>»", "AZURE_OPENAI_ENDPOINT"),
    ("github", "«ghp_<A36>»", "ghp_token"),
    ("github", "«github_pat_<A22>_<A59>»", "github_pattern_matching"),
    ("gitlab", "«glpat-<A20>»", "glpat-x"),
    ("atlassian", "«ATATT3xFf<A60>=»", "ATTACHMENTS"),
    ("slack", "«xoxb-<A12>-<A24>»", "xoxb-"),
    ("slack", "«xapp-1-<A30>»", "xapp-1-a"),
    (
        "slack",
        "https://hooks.slack.com/services/«T<U8>/B<U8>/<A24>»",
        "https://hooks.slack.com/services/",
    ),
    (
        "discord",
        "https://discord.com/api/webhooks/«123456789012345678/<A68>»",
        "discord.com/api/webhooks/1",
    ),
    ("discord", "«M<A23>.<A6>.<A38>»", "MainWindow.Layout.Grid"),
    ("telegram", "«123456789:AA<A33>»", "12:34:56"),
    ("stripe", "«sk_live_<A24>»", "sk_live_mode"),
    ("stripe", "«whsec_<A32>»", "whsec_x"),
    ("square", "«sq0atp-<A22>»", "sq0atp-"),
    ("shopify", "«shpat_<h32>»", "shpat_x"),
    ("twilio", "«AC<h32>»", "ACdeadbeef"),
    ("twilio", "TWILIO_AUTH_TOKEN=«<h32>»", "TWILIO_AUTH_TOKEN is not set"),
    ("sendgrid", "«SG.<A22>.<A43>»", "SG.a.b"),
    ("mailgun", "«key-<h32>»", "key-value"),
    ("mailchimp", "«<h32>-us14»", "a-us14"),
    ("npm", "«npm_<A36>»", "npm_config_registry"),
    (
        "npm",
        "//packages.example.com/:_authToken=«<h36>»",
        "//packages.example.com/:_authToken=${NPM_TOKEN}",
    ),
    ("pypi", "«pypi-AgEIcHlwaS5vcmc<A80>»", "pypi-publish"),
    ("crates-io", "«cio<A32>»", "ciocolata"),
    ("rubygems", "«rubygems_<h48>»", "rubygems_org"),
    ("docker", "«dckr_pat_<A27>»", "dckr_pat_"),
    ("digitalocean", "«dop_v1_<h64>»", "dop_v1_x"),
    ("heroku", "«HRKU-<A36>»", "HRKU-x"),
    ("databricks", "«dapi<h32>»", "dapi"),
    ("vault", "«hvs.<A28>»", "hvs.x"),
    ("terraform", "«<A14>.atlasv1.<A64>»", "x.atlasv1.y"),
    ("doppler", "«dp.pt.<A43>»", "dp.pt.x"),
    ("supabase", "«sb_secret_<A24>»", "sb_secret_x"),
    ("notion", "«ntn_<A46>»", "ntn_x"),
    ("linear", "«lin_api_<A40>»", "lin_api_x"),
    ("postman", "«PMAK-<h24>-<h34>»", "PMAK-x"),
    ("grafana", "«glsa_<A32>_<h8>»", "glsa_x"),
    ("sentry", "«sntrys_<A60>»", "sntrys_x"),
    ("new-relic", "«NRAK-<U27>»", "NRAK-x"),
    ("jwt", "«eyJ<A20>.eyJ<A30>.<A43>»", "eyJ is how JSON in Base64 begins"),
];

/// Writes out the placeholders of an example.
fn written(example: &str) -> String {
    const HEX: &str = "7f3a9c1e5b8d2046";
    const SMALL: &str = "k3v9x1q7m5z2w8r4t6y0pbdh";
    const MIXED: &str = "K3v9Xq7Mz2W8r4Ty6PbDhJ5nLs1Ga";
    const CAPITALS: &str = "Q7XKWZ5RTM3VNB2HJDLP4GFC6S";
    let mut out = String::new();
    let mut rest = example;
    while let Some((before, after)) = rest.split_once('<') {
        let (kind, end) = (after.chars().next(), after.find('>'));
        let count = end.and_then(|end| after[1..end].parse::<usize>().ok());
        let letters = match kind {
            Some('h') => HEX,
            Some('a') => SMALL,
            Some('A') => MIXED,
            Some('U') => CAPITALS,
            _ => "",
        };
        out.push_str(before);
        if let (Some(count), false) = (count, letters.is_empty()) {
            out.extend(letters.chars().cycle().take(count));
            rest = &after[end.unwrap() + 1..];
        } else {
            out.push('<');
            rest = after;
        }
    }
    out + rest
}

/// An example without its marks, and its secret.
fn example(marked: &str) -> (String, String) {
    let text = written(marked);
    let secret = text.split_once('«').and_then(|(_, rest)| rest.split_once('»')).unwrap().0;
    (text.replace(['«', '»'], ""), secret.to_owned())
}

fn redactor() -> Redactor {
    Redactor::new([7; 32])
}

#[test]
fn every_rule_finds_its_example_and_leaves_the_other() {
    let redactor = redactor();
    assert_eq!(redactor.rules.len(), RULES.len(), "every pattern can be compiled");
    assert!(redactor.gap.is_some());
    let names: Vec<&str> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
    let expected: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names, expected, "every rule has its example");
    for ((rule, regex), (name, found, left)) in redactor.rules.iter().zip(EXAMPLES) {
        let (text, secret) = example(found);
        let captures = regex.captures(&text).unwrap_or_else(|| panic!("{name} misses {text}"));
        let found = captures.get(1).or_else(|| captures.get(0)).unwrap().as_str();
        assert_eq!(found, secret, "{name}");
        assert!((rule.accepts)(found), "{name}: {text}");
        let redacted = redactor.redact(&text);
        assert!(!redacted.contains(secret.trim()) && redacted.contains(MARK), "{name}: {redacted}");
        let left = written(left);
        assert_eq!(redactor.redact(&left), left, "{name}");
    }
}

#[test]
fn secrets_are_found_however_often_they_are_escaped() {
    let redactor = redactor();
    for (name, found, _) in EXAMPLES {
        let (text, secret) = example(found);
        let mut value = json!({"role": "user", "content": format!("line one\n{text}\nlast\\line")});
        for depth in 0..4 {
            let json = value.to_string();
            let redacted = redactor.redact(&json);
            let read: Value = serde_json::from_str(&redacted)
                .unwrap_or_else(|error| panic!("{name} at {depth}: {error}: {redacted}"));
            let mut inner = read;
            for _ in 0..depth {
                inner = serde_json::from_str(inner["arguments"].as_str().unwrap()).unwrap();
            }
            let content = inner["content"].as_str().unwrap();
            assert!(!content.contains(secret.trim()), "{name} at {depth}: {content}");
            assert!(
                content.starts_with("line one\n") && content.ends_with("\nlast\\line"),
                "{content}"
            );
            value = json!({"arguments": json});
        }
    }
    // Other ways to write the same characters.
    let token = written("ghp_<A36>");
    for json in [
        format!(r#""\u0067hp\u005f{}""#, &token[4..]),
        format!(r#""password\u003dhunter2 {token}""#),
        r#""https:\/\/me:hunter2@example.com\/""#.to_owned(),
    ] {
        let redacted = redactor.redact(&json);
        let said: String = serde_json::from_str(&redacted).unwrap();
        assert!(!said.contains(&token) && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_secret_that_is_cut_into_parts_is_found() {
    let redactor = redactor();
    for (name, found, _) in EXAMPLES {
        let (text, secret) = example(found);
        let at = text.find(&secret).unwrap() + secret.len() / 2;
        for parts in [
            json!([{"type": "text", "text": text[..at]}, {"type": "text", "text": text[at..]}]),
            json!([{"text": text[..at], "type": "text", "cache_control": {"type": "ephemeral"}}, {"text": text[at..], "type": "text"}]),
        ] {
            let redacted = redactor.redact(&parts.to_string()).into_owned();
            let read: Value = serde_json::from_str(&redacted).unwrap();
            let said: String = read
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part["text"].as_str().unwrap())
                .collect();
            assert!(!said.contains(secret.trim()) && said.contains(MARK), "{name}: {said}");
            assert_eq!(read.as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn marks_depend_on_the_secret_and_the_key_and_are_left_alone() {
    let redactor = redactor();
    let one = redactor.redact("password=hunter2").into_owned();
    assert_eq!(one, redactor.redact(&one), "a redacted text stays as it is");
    assert_ne!(one, redactor.redact("password=hunter3"));
    assert_ne!(one, Redactor::new([8; 32]).redact("password=hunter2"));
    let escaped = redactor.redact(r#"{"a":"password\u003dhunter2"}"#).into_owned();
    assert!(escaped.contains(&one["password=".len()..]), "{escaped}: however it is written");
    for (name, found, _) in EXAMPLES {
        let (text, _) = example(found);
        let marked = redactor.redact(&text).into_owned();
        assert_eq!(redactor.redact(&marked), marked, "{name}");
    }
}

#[test]
fn code_and_prose_are_left_alone() {
    let redactor = redactor();
    for plain in [
        "def connect(user: str, password: str) -> None:",
        "password = os.environ['DB_PASSWORD']",
        "const password = process.env.PASSWORD;",
        "let password = config.password;",
        "max_tokens: 4096, token = next_token(), tokens=12000",
        "api_key=$OPENAI_API_KEY and Authorization: Bearer ${TOKEN}",
        "https://example.com/a:b@c and git@github.com:owner/repo.git",
        "commit 7f3a9c1e5b8d20467f3a9c1e5b8d20467f3a9c1e",
        "src/sk-abcdefghijklmnopqrstuvwxyz",
        "é sk- x",
        "",
    ] {
        assert_eq!(redactor.redact(plain), plain);
    }
}

#[test]
fn a_twin_has_the_structure_of_its_conversation() {
    let redactor = redactor();
    let pem =
        written("-----BEGIN PRIVATE KEY-----\n<A64>\n<A64>\n<A64>\n-----END PRIVATE KEY-----");
    let messages = json!([
        {"role": "user", "content": format!("Deploy with {pem}")},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "bash", "arguments": json!({"command": format!("export A=\"password=hunter2\"\n{pem}")}).to_string()}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]);
    let conversation = read(messages.to_string().into_bytes(), None).unwrap();
    let twin = redactor.twin(&conversation).unwrap().unwrap();
    assert_eq!(twin.messages.len(), 3);
    assert_eq!(twin.messages[1].calls().next().unwrap().id.decode(), "call_1");
    assert!(!twin.bytes().contains("hunter2") && !twin.bytes().contains(&pem[40..80]));
    assert!(redactor.twin(&twin).unwrap().is_none());
    let meter = MeterSpec::for_model("gpt-4o")
        .open(ImageRule::for_model(ImageProvider::OpenAi, None))
        .unwrap();
    assert!(hidden_tokens(&conversation, &twin, &*meter) > Tokens(100));
    assert_eq!(hidden_tokens(&twin, &twin, &*meter), Tokens::ZERO);
}

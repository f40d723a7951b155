//! What secrets look like: the list to keep up to date.
//!
//! A rule finds one kind of secret in plain text. Its secret is the first group of its pattern, or all of
//! the match. No pattern lets a secret contain a double quote, so that taking it out of JSON leaves JSON.
//! `tests.rs` beside this file has an example for every rule that must be found, and one that must not.

/// One kind of secret.
pub(super) struct Rule {
    /// What stands in its place.
    pub(super) name: &'static str,
    pub(super) pattern: &'static str,
    /// Whether a secret that the pattern found is one.
    pub(super) accepts: fn(&str) -> bool,
}

const fn rule(name: &'static str, pattern: &'static str) -> Rule {
    Rule { name, pattern, accepts: always }
}

const fn checked(name: &'static str, pattern: &'static str, accepts: fn(&str) -> bool) -> Rule {
    Rule { name, pattern, accepts }
}

pub(super) const RULES: &[Rule] = &[
    // Keys in files. The body of a key ends where something else than Base64 comes, so that one that was
    // cut off is found, too; line numbers that tools put before each line belong to it.
    rule(
        "private-key",
        r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?:[A-Za-z0-9+/=\s→|]|[A-Z][A-Za-z-]{2,20}: ?[A-Za-z0-9 ,.:/()-]{0,100}\n){16,})",
    ),
    rule(
        "private-key",
        r"((?:[A-Za-z0-9+/=]{20,100}\s[\s0-9→|]*){1,400}[A-Za-z0-9+/=]{0,100}\s*)-----END [A-Z0-9 ]{0,30}PRIVATE KEY",
    ),
    rule("private-key", r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,70}\b"),
    // Lines and forms that say that a secret follows.
    checked(
        "authorization",
        r#"(?i)\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?(?:(?:bearer|basic|token|digest|apikey|negotiate)\s{1,3})?([^\s"',;]{8,})"#,
        is_value,
    ),
    checked("bearer", r"(?i)\bbearer\s{1,3}([A-Za-z0-9_.=+/~-]{16,})", is_mixed),
    checked(
        "api-key",
        r#"(?i)\b(?:x-|ocp-apim-)?(?:goog-api|api|auth|access|subscription)-(?:key|token)["']?\s{0,3}[:=]\s{0,3}["']?([^\s"',;]{8,})"#,
        is_value,
    ),
    checked(
        "url-password",
        r#"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@"'<>]{0,100}:([^\s/@"'<>]{1,200})@"#,
        is_value,
    ),
    checked(
        "password",
        r#"(?i)(?:password|passwd|passphrase|passwort|pwd)["']?\s{0,3}={1,2}\s{0,3}["']?([^\s"'&,;<>()]{3,200})"#,
        is_password,
    ),
    checked(
        "password",
        r#"(?i)(?:password|passwd|passphrase|passwort|pwd)["']?\s{0,3}:\s{0,3}["']([^"'\n]{3,200})["']"#,
        is_password,
    ),
    checked(
        "password",
        r#"(?i)(?:password|passwd|passphrase|passwort|pwd)\s{0,3}(?::|\bis\b)\s{0,3}([^\s"'&,;<>()]{6,200})"#,
        is_odd_password,
    ),
    checked(
        "password",
        r#"\bcurl\b[^\n"]{0,300}?\s(?:-u|--user)[\s=]+["']?[^\s:"']{1,100}:([^\s"']{1,200})"#,
        is_value,
    ),
    checked(
        "assigned-key",
        r#"(?i)(?:secret|token|api_?key|access_?key|account_?key|private_?key|auth_?key|client_?secret|credentials?)["']?\s{0,3}[:=]{1,2}\s{0,3}["']?([A-Za-z0-9_+/=.~-]{16,300})"#,
        is_random,
    ),
    // Services, by name.
    rule("anthropic", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    rule("openrouter", r"\bsk-or-(?:v1-)?[A-Za-z0-9]{20,}"),
    checked("openai", r"\bsk-[A-Za-z0-9_-]{16,}", is_mixed),
    rule("groq", r"\bgsk_[A-Za-z0-9]{20,}"),
    rule("xai", r"\bxai-[A-Za-z0-9_-]{20,}"),
    rule("perplexity", r"\bpplx-[A-Za-z0-9]{20,}"),
    rule("hugging-face", r"\b(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    rule("replicate", r"\br8_[A-Za-z0-9]{30,}"),
    rule("fireworks", r"\bfw_[A-Za-z0-9]{20,}"),
    rule("tavily", r"\btvly-[A-Za-z0-9_-]{20,}"),
    rule("langsmith", r"\blsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}"),
    rule("aws-access-key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    rule(
        "aws-secret",
        r#"(?i)(?:aws|secret|access)[a-z_ .-]{0,30}key["'\]\s]{0,4}[:=>]{0,2}["'\s]{0,4}([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#,
    ),
    rule("aws-bedrock", r"\bABSK[A-Za-z0-9+/]{60,}={0,2}"),
    rule("google", r"\bAIza[A-Za-z0-9_-]{35}"),
    rule("google-oauth", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    rule("google-oauth", r"\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    rule("azure", r"\b(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,90}={1,2})"),
    rule("azure", r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34})"),
    rule("azure", r"[?&]sig=([A-Za-z0-9%+/]{40,}(?:=|%3[dD]))"),
    rule("azure", r"\b[A-Za-z0-9]{76}AZ[A-Za-z0-9]{6}[A-Za-z0-9]{0,8}\b"),
    rule("github", r"\bgh[pousr]_[A-Za-z0-9]{30,}"),
    rule("github", r"\bgithub_pat_[A-Za-z0-9_]{40,}"),
    rule("gitlab", r"\bgl(?:pat|dt|rt|cbt|ptt|oas|ft|imt|agent|soat)-[A-Za-z0-9_.-]{20,}"),
    rule("atlassian", r"\bAT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{24,}"),
    rule("slack", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    rule("slack", r"\bxapp-[0-9]-[A-Za-z0-9-]{20,}"),
    rule("slack", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_]{20,})"),
    rule("discord", r"\bdiscord(?:app)?\.com/api/webhooks/([0-9]{15,20}/[A-Za-z0-9_-]{40,})"),
    rule("discord", r"\b[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}\b"),
    rule("telegram", r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    rule("stripe", r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"),
    rule("stripe", r"\bwhsec_[A-Za-z0-9+/=]{20,}"),
    rule("square", r"\bsq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,}"),
    rule("shopify", r"\bshp(?:at|ca|pa|ss|tka)_[A-Fa-f0-9]{32}"),
    rule("twilio", r"\b(?:AC|SK)[a-f0-9]{32}\b"),
    rule("twilio", r#"(?i)twilio[a-z_.]{0,20}token["']?\s{0,3}[:=]\s{0,3}["']?([a-f0-9]{32})"#),
    rule("sendgrid", r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,64}"),
    rule("mailgun", r"\bkey-[a-f0-9]{32}\b"),
    rule("mailchimp", r"\b[a-f0-9]{32}-us[0-9]{1,2}\b"),
    rule("npm", r"\bnpm_[A-Za-z0-9]{36}"),
    rule("npm", r#"_authToken=([^\s$"'][^\s"']{7,})"#),
    rule("pypi", r"\bpypi-[A-Za-z0-9_-]{40,}"),
    rule("crates-io", r"\bcio[A-Za-z0-9]{32}\b"),
    rule("rubygems", r"\brubygems_[a-f0-9]{48}"),
    rule("docker", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    rule("digitalocean", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    rule("heroku", r"\bHRKU-[A-Za-z0-9_-]{30,}"),
    rule("databricks", r"\bdapi[a-f0-9]{32}\b"),
    rule("vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    rule("terraform", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    rule("doppler", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,}"),
    rule("supabase", r"\bsb(?:p|_secret|_publishable)_[A-Za-z0-9_-]{20,}"),
    rule("notion", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b"),
    rule("linear", r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    rule("postman", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    rule("grafana", r"\b(?:glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,}={0,2})"),
    rule("sentry", r"\bsntry[su]_[A-Za-z0-9_=+/]{40,}"),
    rule("new-relic", r"\bNRAK-[A-Z0-9]{27}\b"),
    rule("jwt", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]{10,})?"),
];

fn always(_: &str) -> bool {
    true
}

/// Whether it is a value and not the place of one: `$TOKEN`, `{token}`, `<token>`, `%s`, `***`.
fn is_value(secret: &str) -> bool {
    !secret.starts_with(['$', '{', '<', '%', '*', '[', '`', '.', '#']) && !secret.ends_with('(')
}

/// Whether it has letters and digits: words joined by hyphens are no keys.
fn is_mixed(secret: &str) -> bool {
    is_value(secret)
        && secret.bytes().any(|byte| byte.is_ascii_digit())
        && secret.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether it looks random: identifiers have few digits, numbers have no letters.
fn is_random(secret: &str) -> bool {
    let digits = secret.bytes().filter(u8::is_ascii_digit).count();
    is_mixed(secret) && digits >= 3 && !secret.starts_with("http") && !secret.contains("...")
}

/// Values that say what a password is, or that there is none.
const NO_PASSWORDS: &[&str] = &[
    "bool",
    "bytes",
    "false",
    "getpass",
    "input",
    "none",
    "null",
    "option",
    "password",
    "prompt",
    "required",
    "secret",
    "self",
    "str",
    "string",
    "true",
    "undefined",
];

fn is_password(secret: &str) -> bool {
    let word = secret.trim_end_matches(['.', ')', ']', '?', '|', '!']).to_ascii_lowercase();
    // `password = config.password`, `password=args.pwd`, `password = read_password()`: code, no value.
    let is_code = word.starts_with("self.")
        || word.starts_with("os.")
        || word.starts_with("process.env")
        || word.starts_with("option<")
        || matches!(word.rsplit_once('.'), Some((_, "password" | "pwd")))
        || word.ends_with("_password");
    is_value(secret) && !is_code && !NO_PASSWORDS.contains(&word.as_str())
}

/// Without quotes or an equals sign, only text that does not look like a word is a password.
fn is_odd_password(secret: &str) -> bool {
    let is_odd = |byte: u8| byte.is_ascii_digit() || b"!#$%^*+~@".contains(&byte);
    is_password(secret)
        && secret.bytes().any(is_odd)
        && secret.bytes().any(|b| b.is_ascii_alphabetic())
}

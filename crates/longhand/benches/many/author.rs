//! Made-up sessions of coding agents, each known by its number.

use longhand_core::json::quote;
use longhand_testkit::rng::Rng;

/// The commonest words first.
const COMMON: &[&str] = &[
    "the", "of", "and", "to", "in", "is", "that", "it", "for", "was", "on", "with", "as", "be",
    "at", "by", "this", "not", "are", "from", "or", "an", "have", "error", "file", "test", "line",
    "function", "value", "return", "string", "let", "pub", "use", "import", "def", "self", "none",
    "true", "false", "name", "type", "data", "list", "run", "build", "config", "server", "request",
    "response", "user", "session", "table", "query", "index", "order", "event", "cache", "retry",
    "timeout", "lock", "thread", "queue", "worker", "message", "handler", "module", "path",
];
const WORDS: usize = 30_000;
const SYLLABLES: &[&str] = &[
    "ba", "cor", "di", "fen", "gul", "ha", "ist", "jo", "ka", "lem", "mi", "nor", "op", "pra",
    "qui", "ra", "sto", "tel", "ur", "ven", "wi", "xe", "yl", "zo", "ment", "tion", "er", "al",
    "ic", "ant",
];
/// Words are drawn from a table of so many, in which common ones are many times.
const DRAWS: usize = 1 << 18;
const PROJECTS: u64 = 23;
/// Names of a project, and how often one is new.
const NAMES: usize = 3_000;
const NEW_NAMES: f64 = 0.02;
const ROUNDS: usize = 10;
/// Calls of a round, each with a result.
const CALLS: usize = 6;
/// Every such session has a message of the system in its middle.
const WITH_SYSTEM: u64 = 100;
/// The session with these words side by side.
const WITH_PHRASE: u64 = 7;
const PHRASE: &str = "thread was by queue are from lock that worker";

/// Words by how often they come, and the names that the programs of each project have.
pub(crate) struct Vocabulary {
    words: Vec<String>,
    draws: Vec<u16>,
    names: Vec<Vec<String>>,
}

impl Vocabulary {
    pub(crate) fn new() -> Self {
        let mut rng = Rng::new(1);
        let mut words: Vec<String> = COMMON.iter().map(|&word| word.to_owned()).collect();
        while words.len() < WORDS {
            let syllables = 2 + rng.range(0..3);
            words.push((0..syllables).map(|_| *rng.choose(SYLLABLES)).collect());
        }
        let total: f64 = (1..=WORDS).map(|rank| 1.0 / rank as f64).sum();
        let mut draws = Vec::with_capacity(DRAWS);
        let mut sum = 0.0;
        for rank in 1..=WORDS {
            sum += 1.0 / rank as f64;
            draws.resize((sum / total * DRAWS as f64) as usize, rank as u16 - 1);
        }
        draws.resize(DRAWS, 0);
        let mut vocabulary = Self { words, draws, names: Vec::new() };
        for _ in 0..PROJECTS {
            let names = (0..NAMES).map(|_| vocabulary.new_name(&mut rng)).collect();
            vocabulary.names.push(names);
        }
        vocabulary
    }

    fn word(&self, rng: &mut Rng) -> &str {
        &self.words[usize::from(self.draws[rng.range(0..DRAWS)])]
    }

    /// A name as programmers make them.
    fn new_name(&self, rng: &mut Rng) -> String {
        let words = [self.word(rng), self.word(rng), self.word(rng)];
        let words = &words[..2 + rng.range(0..2)];
        if rng.chance(0.5) {
            return words.join("_");
        }
        words.iter().map(|word| word[..1].to_uppercase() + &word[1..]).collect()
    }
}

/// One message of a session.
pub(crate) struct SaidMessage {
    pub(crate) opens_round: bool,
    pub(crate) raw: String,
}

/// Writes one session.
pub(crate) struct Author<'v> {
    vocabulary: &'v Vocabulary,
    number: u64,
    rng: Rng,
    calls: u64,
}

impl<'v> Author<'v> {
    pub(crate) fn new(vocabulary: &'v Vocabulary, number: u64) -> Self {
        Self { vocabulary, number, rng: Rng::new(number.wrapping_mul(7_919) + 17), calls: 0 }
    }

    /// The messages of a session: some 130, with 180 KB of text.
    pub(crate) fn session(mut self) -> impl Iterator<Item = SaidMessage> {
        let mut said = Vec::new();
        for round in 0..ROUNDS {
            said.push(self.user(round));
            for _ in 0..CALLS {
                let bytes = self.rng.log_normal(2_000.0, 0.6).min(20_000.0);
                said.extend(self.call(bytes as usize));
            }
            if round == ROUNDS / 2 && self.number.is_multiple_of(WITH_SYSTEM) {
                let text = format!("Be brief from now on. {}", self.prose(2));
                said.push(message("system", &text, false));
            }
        }
        said.push(message("assistant", &format!("Done. {}", self.prose(4)), false));
        said.into_iter()
    }

    /// A round of a question, a call, a result and an answer.
    pub(crate) fn short_round(&mut self) -> Vec<SaidMessage> {
        let mut said = vec![self.user(1)];
        said.extend(self.call(800));
        let answer = self.prose(2);
        said.push(message("assistant", &answer, false));
        said
    }

    fn user(&mut self, round: usize) -> SaidMessage {
        let mut text = self.prose(3);
        if round == 0 {
            text = format!("Project {}: {text}", self.project());
        }
        if round == 3 && self.number == WITH_PHRASE {
            text = format!("{text} {PHRASE}.");
        }
        message("user", &text, true)
    }

    /// A call with its result of about so many bytes.
    fn call(&mut self, bytes: usize) -> [SaidMessage; 2] {
        self.calls += 1;
        let (calls, path) = (self.calls, self.path());
        let arguments =
            quote(&format!(r#"{{"path":"{path}","lines":{}}}"#, self.rng.range(1..900)));
        let said = quote(&self.prose(3));
        let call = format!(
            r#"{{"role":"assistant","content":{said},"tool_calls":[{{"id":"call_{calls}","type":"function","function":{{"name":"read_file","arguments":{arguments}}}}}]}}"#
        );
        let result = quote(&self.lines(bytes));
        let result =
            format!(r#"{{"role":"tool","tool_call_id":"call_{calls}","content":{result}}}"#);
        [call, result].map(|raw| SaidMessage { opens_round: false, raw })
    }

    fn project(&self) -> String {
        format!("project{}", self.number % PROJECTS)
    }

    fn path(&mut self) -> String {
        let (folder, file) = (self.word(), self.word());
        format!("src/{}/{folder}/{file}.rs", self.project())
    }

    fn word(&mut self) -> &'v str {
        self.vocabulary.word(&mut self.rng)
    }

    /// A name of the project; the first ones are the most frequent, and some are new.
    fn identifier(&mut self) -> String {
        if self.rng.chance(NEW_NAMES) {
            return self.vocabulary.new_name(&mut self.rng);
        }
        let names = &self.vocabulary.names[(self.number % PROJECTS) as usize];
        let share = self.rng.unit() * self.rng.unit();
        names[(share * NAMES as f64) as usize].clone()
    }

    fn prose(&mut self, sentences: usize) -> String {
        let mut text = String::new();
        for _ in 0..sentences {
            for at in 0..self.rng.range(8..20) {
                text.push_str(if at == 0 { "" } else { " " });
                text.push_str(self.word());
            }
            text.push_str(". ");
        }
        text.push_str(&self.identifier());
        text
    }

    /// Lines of a file or of a log.
    fn lines(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            let number = self.rng.range(0..1_000);
            let line = match self.rng.range(0..20) {
                0 => format!("commit {:016x} {}", self.rng.next_u64(), self.word()),
                1 | 2 => format!("{}:{number}: {}", self.path(), self.word()),
                3 | 4 => {
                    format!("2026-03-{:02}T10:{:02} {}", number % 28, number % 60, self.prose(1))
                }
                5..=10 => {
                    let (one, other) = (self.identifier(), self.identifier());
                    format!("    let {one} = self.{other}({number});")
                }
                _ => format!("        {} {} {}", self.word(), self.identifier(), self.word()),
            };
            text.push_str(&line);
            text.push('\n');
        }
        text
    }
}

fn message(role: &str, text: &str, opens_round: bool) -> SaidMessage {
    let raw = format!(r#"{{"role":"{role}","content":{}}}"#, quote(text));
    SaidMessage { opens_round, raw }
}

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use longhand_model::{Api, ClientLimits, Clock, Endpoint, Model, ModelClient, Secret};
use longhand_testkit::scripted::ScriptedServer;

pub(crate) const KEY: &str = "sk-test-0123456789-secret";

pub(crate) const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Anthropic];

/// A clock on which waiting takes no time.
#[derive(Default)]
pub(crate) struct TestClock {
    now: Mutex<Duration>,
    slept: Mutex<Vec<Duration>>,
}

impl TestClock {
    pub(crate) fn advance(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
    }

    pub(crate) fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap().clone()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    fn date(&self) -> SystemTime {
        // Sun, 06 Nov 1994 08:49:37 GMT
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777) + self.now()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.advance(time);
        self.slept.lock().unwrap().push(time);
        Box::pin(ready(()))
    }
}

pub(crate) fn limits() -> ClientLimits {
    ClientLimits {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_mins(1),
        response_bytes_max: 200_000,
        ..ClientLimits::default()
    }
}

/// For what hangs: nothing else can be expected to keep these.
pub(crate) fn short() -> ClientLimits {
    ClientLimits { first_byte: Duration::from_millis(100), ..limits() }
}

pub(crate) fn client(limits: ClientLimits) -> (ModelClient, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    (ModelClient::new(limits).with_clock(clock.clone()), clock)
}

pub(crate) fn model(api: Api, url: &str) -> Model {
    let endpoint = Endpoint { key: Secret::new(KEY), ..Endpoint::new("scripted", api, url) };
    Model { endpoint: Arc::new(endpoint), name: "m-1".to_owned() }
}

pub(crate) fn model_at(api: Api, server: &ScriptedServer) -> Model {
    model(api, &server.url())
}

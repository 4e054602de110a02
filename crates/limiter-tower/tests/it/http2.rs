//! A thousand streams at once on one HTTP/2 connection.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::extract::Request;
use http_body_util::Empty;
use tokio::{sync::Semaphore, task::JoinSet, time::timeout};

use crate::{
    server::{Client, Server},
    *,
};

const STREAMS: usize = 1_000;
const QUOTA: Quota = Quota::per_hour(600);
/// 600 at once, then ten a second.
const DELAYED: Quota = Quota::per_second(10).with_burst(600);
const STEP: Duration = Duration::from_millis(100);
const AT_MOST: Duration = Duration::from_secs(30);

fn of_quota() -> (Rule, Memory) {
    let limiter = limiter(QUOTA).0;
    (for_all(limiter.clone()), limiter)
}

/// Returns a rule with so many places for waiters.
fn waiting(places: usize) -> (Rule, Memory, ManualClock) {
    let (limiter, clock) = limiter(DELAYED);
    let wait = Wait::up_to(STEP * 1_000).queue(places).clock(clock.clone());
    let key = FixedKey::new("all");
    (Rule::waiting(limiter.clone(), key, wait), limiter, clock)
}

/// Sends a request on a new stream, and returns its status, or 0 if the stream failed.
fn send(client: &Client, path: &str) -> impl Future<Output = u16> + use<> {
    let mut client = client.sender.clone();
    let request = Request::builder().uri(format!("http://test{path}"));
    let request = request.body(Empty::new()).unwrap();
    async move {
        client.ready().await.unwrap();
        client.send_request(request).await.map_or(0, |response| response.status().as_u16())
    }
}

/// Requests in flight, each on its own stream.
struct Requests {
    tasks: JoinSet<()>,
    answered: Arc<Mutex<Vec<u16>>>,
}

impl Requests {
    fn start(client: &Client, streams: usize) -> Self {
        let answered = Arc::new(Mutex::new(Vec::new()));
        let tasks = (0..streams).map(|_| {
            let (response, answered) = (send(client, "/"), Arc::clone(&answered));
            async move {
                let status = response.await;
                answered.lock().unwrap().push(status);
            }
        });
        Self { tasks: tasks.collect(), answered }
    }

    /// Returns how many were answered with 200, and how many with 429.
    fn answered(&self) -> [usize; 2] {
        let answered = self.answered.lock().unwrap();
        [200, 429].map(|status| answered.iter().filter(|&&found| found == status).count())
    }

    /// Resets the streams that are not answered.
    fn reset(mut self) {
        self.tasks.abort_all();
    }
}

/// Waits until the `condition` is met. The test's time-out is the bound.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

/// Holds requests in the handler until it is opened, so that they are in flight together.
#[derive(Clone)]
struct Gate {
    entered: Arc<AtomicUsize>,
    closed: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { entered: Arc::default(), closed: Arc::new(Semaphore::new(0)) }
    }

    /// Returns an app whose handler holds requests.
    fn app(&self) -> Router {
        let gate = self.clone();
        let hold = async move || {
            gate.entered.fetch_add(1, Relaxed);
            drop(gate.closed.acquire().await);
            "hello"
        };
        Router::new().route("/", get(hold))
    }

    fn entered(&self) -> usize {
        self.entered.load(Relaxed)
    }

    fn open(&self) {
        self.closed.close();
    }
}

/// Returns an app whose handlers respond at once, or panic.
fn app() -> Router {
    let panicking = async || -> &'static str { panic!("as the test wants") };
    Router::new().route("/", get(async || "hello")).route("/panic", get(panicking))
}

#[tokio::test]
async fn a_thousand_streams_are_admitted_up_to_the_quota_and_settled_unless_they_are_reset() {
    let test = async {
        for are_reset in [false, true] {
            let ((rule, limiter), gate) = (of_quota(), Gate::new());
            let rule = rule.settle(|_| Keep::None);
            let server = Server::start(gate.app().layer(RateLimitLayer::all([rule.clone()]))).await;
            let client = server.connect().await;
            let requests = Requests::start(&client, STREAMS);
            until(|| gate.entered() == 600 && requests.answered() == [0, 400]).await;
            assert_eq!(used(&limiter), 600);
            // A handler that is dropped drops its clone of the semaphore.
            let held = Arc::strong_count(&gate.closed);
            let admitted = if are_reset {
                requests.reset();
                until(|| Arc::strong_count(&gate.closed) == held - 600).await;
                gate.open();
                [0, 600]
            } else {
                gate.open();
                until(|| requests.answered() == [600, 400]).await;
                [600, 0]
            };
            let left = if are_reset { 600 } else { 0 };
            assert_eq!((gate.entered(), used(&limiter), rule.unsent()), (600, left, 0));
            let requests = Requests::start(&client, 600);
            until(|| requests.answered() == admitted).await;
            assert_eq!(used(&limiter), left);
        }
    };
    timeout(AT_MOST, test).await.unwrap();
}

#[tokio::test]
async fn streams_that_end_while_they_wait_free_their_permits_and_keep_their_places_until_due() {
    let test = async {
        // By a reset of each, or with their connection.
        for closes in [false, true] {
            let (rule, limiter, clock) = waiting(100);
            let server = Server::start(app().layer(RateLimitLayer::all([rule]))).await;
            let mut client = server.connect().await;
            let requests = Requests::start(&client, STREAMS);
            until(|| requests.answered() == [600, 300]).await;
            assert!(clock.next_wake().is_some());
            if closes {
                client.socket.shutdown(std::net::Shutdown::Both).unwrap();
                client = server.connect().await;
            } else {
                requests.reset();
            }
            until(|| clock.next_wake().is_none()).await;
            assert_eq!(used(&limiter), 600);

            // Their permits are free, and their places are not.
            let requests = Requests::start(&client, 10);
            until(|| requests.answered() == [0, 10]).await;
            clock.advance(STEP * 100);
            let requests = Requests::start(&client, 201);
            until(|| requests.answered() == [100, 1]).await;
            for admitted in 101..=200 {
                clock.advance(STEP);
                until(|| requests.answered() == [admitted, 1]).await;
            }
            assert_eq!((used(&limiter), clock.next_wake()), (600, None));
        }
    };
    timeout(AT_MOST, test).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_panics_keeps_its_charge_and_frees_its_place() {
    let test = async {
        let (rule, limiter, clock) = waiting(1);
        let server =
            Server::start(app().layer(RateLimitLayer::all([rule.settle(|_| Keep::None)]))).await;
        let client = server.connect().await;
        let panicking: Vec<_> = (0..600).map(|_| send(&client, "/panic")).collect();
        for response in panicking {
            assert_eq!(response.await, 0);
        }
        assert_eq!(used(&limiter), 600);

        // The only place is free again after a request that waits and panics.
        for (path, status) in [("/panic", 0), ("/panic", 0), ("/", 200)] {
            let client = server.connect().await;
            let response = tokio::spawn(send(&client, path));
            until(|| clock.next_wake().is_some()).await;
            clock.advance(STEP);
            assert_eq!(response.await.unwrap(), status, "{path}");
        }
        // Only the last one was refunded.
        assert_eq!(used(&limiter), 599);
    };
    timeout(AT_MOST, test).await.unwrap();
}

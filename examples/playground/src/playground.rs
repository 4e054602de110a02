//! The routes behind the page: requests under a limit that the page chooses.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, Uri, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use limiter_core::{Error, MemoryLimiter, Policy};
use limiter_tower::{
    RateLimitLayer, Rule,
    observe::{Decisions, Event, Outcome, PolicyDecision},
    plan::Plan,
    rule::Wait,
};
use serde_json::{Map, Value, json};

use crate::{
    subject::{self, BySubject},
    top::Top,
};

/// The name of the policy, in header fields and metrics.
const NAME: &str = "playground";
/// The limit until the page sets another one.
const FIRST: &str = "10/min";
/// The longest text of a limit, in bytes.
const LONGEST_TEXT: usize = 1_000;
/// For how many subjects in debt there is room. Others share one allowance.
const SUBJECTS: usize = 1_000;
/// For how many entries of logs and sub-windows a subject there is room.
const ENTRIES: usize = 100;
/// How many of the subjects refused most are counted.
const COUNTERS: usize = 16;
/// How long a request waits in a queue.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The limit in force, which is replaced as a whole.
struct Playground(RwLock<Arc<Run>>);

/// One limit, from when it was set, with what became of the requests under it.
struct Run {
    plan: Plan,
    tally: Mutex<Tally>,
}

struct Tally {
    /// How many requests had each outcome.
    outcomes: BTreeMap<&'static str, u64>,
    /// Who was refused.
    refused: Top,
}

/// Returns the routes:
///
/// - `GET /limited?subject=alice` is limited;
/// - `GET /queued?subject=alice` is limited by the same limit, and waits instead of being refused;
/// - `POST /playground` replaces the limit by the one in the body, such as `10/s burst 20`;
/// - `GET /playground?subject=alice` returns the limit, the counts under it and the subject's usage.
pub(crate) fn routes() -> Result<Router> {
    let limiter = limiter(FIRST)?;
    let first = Run::new(limiter.clone());
    let playground = Arc::new(Playground(RwLock::new(Arc::new(first))));

    // The current plan replaces the rules' own, which is the first one. So the page can change the
    // algorithm: `Rule::set_policy` changes a quota, and keeps the algorithm's states.
    let refusing = Rule::new(limiter.clone(), BySubject);
    let waiting = Rule::waiting(limiter, BySubject, Wait::up_to(LONGEST_WAIT));
    let [refusing, waiting] = [refusing, waiting].map(|rule| {
        let [select, observe] = [(); 2].map(|()| Arc::clone(&playground));
        RateLimitLayer::all([rule.plan(move |_| Some(select.current().plan.clone()))])
            .decisions()
            .observe(move |event| observe.current().record(event))
    });
    Ok(Router::new()
        .route("/limited", get(admitted).layer(refusing))
        .route("/queued", get(admitted).layer(waiting))
        .route("/playground", get(status).post(replace))
        .layer(DefaultBodyLimit::max(LONGEST_TEXT))
        .with_state(playground))
}

/// Returns a limiter in memory of the limit in `text`, such as `100/min by sliding-log`.
fn limiter(text: &str) -> Result<MemoryLimiter, Error> {
    let policy = Policy::parse(NAME, text)?;
    MemoryLimiter::builder(policy).capacity(SUBJECTS).entries_per_key(ENTRIES).build()
}

async fn admitted(decisions: Decisions) -> String {
    match decisions.iter().find_map(PolicyDecision::waited) {
        Some(waited) => format!("admitted after {} ms\n", waited.as_millis()),
        None => "admitted\n".to_owned(),
    }
}

async fn replace(State(playground): State<Arc<Playground>>, text: String) -> impl IntoResponse {
    match limiter(&text) {
        Ok(limiter) => {
            let run = Arc::new(Run::new(limiter));
            let limit = run.limit();
            *playground.0.write().unwrap_or_else(PoisonError::into_inner) = run;
            (StatusCode::OK, limit)
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
    }
}

async fn status(State(playground): State<Arc<Playground>>, uri: Uri) -> impl IntoResponse {
    let run = playground.current();
    let mut status = run.counts();
    if let Some(subject) = subject::find(&uri)
        // In memory this is ready at once, and never an error.
        && let Ok(usage) = run.plan.limiter().peek(&subject.into()).await
    {
        let usage = json!({ "subject": subject, "used": usage.used(), "limit": usage.burst() });
        status.insert("usage".to_owned(), usage);
    }
    ([(CONTENT_TYPE, "application/json")], Value::from(status).to_string())
}

impl Playground {
    fn current(&self) -> Arc<Run> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Run {
    fn new(limiter: MemoryLimiter) -> Self {
        let tally = Tally { outcomes: BTreeMap::new(), refused: Top::new(COUNTERS) };
        Self { plan: Plan::waiting(limiter), tally: Mutex::new(tally) }
    }

    /// Returns the limit as text.
    fn limit(&self) -> String {
        self.plan.policy().limits().iter().map(ToString::to_string).collect()
    }

    fn record(&self, event: &Event<'_>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        *tally.outcomes.entry(event.outcome.name()).or_default() += 1;
        if event.outcome == Outcome::Denied
            && let Some(subject) = subject::find(event.head.uri())
        {
            tally.refused.add(subject);
        }
    }

    fn counts(&self) -> Map<String, Value> {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = tally.refused.counters();
        let refused = refused.iter().map(|counter| {
            json!({
                "subject": &*counter.subject,
                "refusals": counter.count,
                "overcount": counter.overcount,
            })
        });
        let mut counts = Map::new();
        counts.insert("limit".to_owned(), self.limit().into());
        counts.insert("outcomes".to_owned(), json!(tally.outcomes));
        counts.insert("refusals".to_owned(), tally.refused.total().into());
        counts.insert("refused_most".to_owned(), refused.collect());
        counts
    }
}

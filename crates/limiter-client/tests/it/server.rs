//! A server that limits requests, and writes the fields by hand.

use limiter_core::Decision;

use crate::*;

/// The fields that a server writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    None,
    /// `RateLimit-Policy` and `RateLimit` of drafts 08 to 11.
    List,
    /// The three fields of drafts 03 to 06.
    Three,
    /// `X-RateLimit-*`, with a reset in Unix time.
    X,
}

/// The limiter of a server, which a test can replace.
#[derive(Clone)]
pub(crate) struct Limit(Arc<Mutex<MemoryLimiter<TokioClock>>>);

impl Limit {
    pub(crate) fn new(policy: Policy) -> Self {
        let limiter = MemoryLimiter::builder(policy).clock(TokioClock::new()).build().unwrap();
        Self(Arc::new(Mutex::new(limiter)))
    }

    pub(crate) fn set(&self, policy: &Policy) {
        let mut limiter = self.0.lock().unwrap();
        *limiter = limiter.with_policy(policy).unwrap();
    }

    /// Returns the status, and the fields.
    fn answer(&self, form: Form) -> (u16, Vec<(&'static str, String)>) {
        let limiter = self.0.lock().unwrap();
        let decision = limiter.check("all");
        let mut fields = fields(limiter.policy(), &decision, form);
        if decision.is_admitted() {
            return (200, fields);
        }
        if form != Form::None {
            fields.push(("retry-after", seconds(decision.retry_after().unwrap()).to_string()));
        }
        (429, fields)
    }
}

fn fields(policy: &Policy, decision: &Decision, form: Form) -> Vec<(&'static str, String)> {
    let limit = &policy.limits()[0];
    let (quota, remaining) = (limit.quota(), decision.remaining());
    let reset = seconds(decision.reset_after());
    match form {
        Form::None => Vec::new(),
        Form::List => {
            let (permits, window) = (quota.permits(), quota.window());
            let burst = match decision.burst() {
                burst if burst == permits => String::new(),
                burst => format!(";limiter-burst={burst}"),
            };
            // Where permits recover one by one, what remains is for as long as it takes to recover.
            let time = if !decision.is_admitted() {
                seconds(decision.retry_after().unwrap())
            } else if !limit.algorithm().is_continuous() {
                reset
            } else if remaining == 0 {
                let others = window.mul_f64((decision.burst() - 1) as f64 / permits as f64);
                seconds(decision.reset_after().saturating_sub(others))
            } else {
                seconds(window.mul_f64(remaining as f64 / permits as f64))
            };
            vec![
                ("ratelimit-policy", format!("\"api\";q={permits};w={}{burst}", window.as_secs())),
                ("ratelimit", format!("\"api\";r={remaining};t={time}")),
            ]
        }
        Form::Three => vec![
            ("ratelimit-limit", decision.burst().to_string()),
            ("ratelimit-remaining", remaining.to_string()),
            ("ratelimit-reset", reset.to_string()),
        ],
        Form::X => {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + reset;
            vec![
                ("x-ratelimit-limit", decision.burst().to_string()),
                ("x-ratelimit-remaining", remaining.to_string()),
                ("x-ratelimit-reset", unix.to_string()),
            ]
        }
    }
}

/// Rounds up to a second at least.
fn seconds(time: Duration) -> u64 {
    (time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(1)
}

/// Returns a server that takes 5 ms for the way there, and for the way back.
pub(crate) fn server(limit: &Limit, form: Form, log: &Log) -> impl Server + use<> {
    let (limit, log) = (limit.clone(), log.clone());
    service_fn(move |_: Request<Body>| {
        let (limit, log) = (limit.clone(), log.clone());
        async move {
            sleep(Duration::from_millis(5)).await;
            let (status, fields) = limit.answer(form);
            let fields: Vec<_> = fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
            log.add(status);
            sleep(Duration::from_millis(5)).await;
            Ok::<Response<Body>, Infallible>(response(status, &fields))
        }
    })
}

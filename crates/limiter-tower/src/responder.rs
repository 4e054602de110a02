//! What a client is told: fields on the inner response, or an answer in its place.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
};
use limiter_core::{Decision, Error, Policy, Source};

use crate::{
    fields::Fields,
    key::MissingKey,
    options::{OnMissingKey, OnStoreFailure},
    watch::StoreWatch,
};

/// Turns decisions into responses, and failures into what the user chose.
#[derive(Debug)]
pub(crate) struct Responder {
    policy: Policy,
    fields: Fields,
    pub(crate) on_missing_key: OnMissingKey,
    pub(crate) on_store_failure: OnStoreFailure,
    /// Whether a missing key was reported: once is enough.
    missing_key_reported: AtomicBool,
    store: StoreWatch,
}

/// Where a request goes.
pub(crate) enum Judgement {
    /// To the inner service, with the decision; `None` goes uncounted.
    Forward(Option<Decision>),
    /// Back to the client.
    Answer(Response<Bytes>),
}

impl Responder {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            policy: policy.clone(),
            fields: Fields::new(policy),
            on_missing_key: OnMissingKey::default(),
            on_store_failure: OnStoreFailure::default(),
            missing_key_reported: AtomicBool::new(false),
            store: StoreWatch::default(),
        }
    }

    /// Judges a request by its decision, or by what the user chose for a store that fails.
    pub(crate) fn judge(&self, result: Result<Decision, Error>) -> Judgement {
        match result {
            // By the limiter's own choice for a store that fails: there is nothing to tell of it.
            Ok(decision) if decision.source() == Source::Failure => {
                if decision.is_admitted() {
                    Judgement::Forward(None)
                } else {
                    Judgement::Answer(unavailable())
                }
            }
            Ok(decision) => {
                self.report_recovery();
                if decision.is_admitted() {
                    Judgement::Forward(Some(decision))
                } else {
                    Judgement::Answer(self.refusal(decision))
                }
            }
            Err(error) => {
                self.report_failure(&error);
                match self.on_store_failure {
                    OnStoreFailure::Allow => Judgement::Forward(None),
                    OnStoreFailure::Deny => Judgement::Answer(unavailable()),
                }
            }
        }
    }

    /// Judges a request without a key, or returns `None` if it is to be counted with its like.
    pub(crate) fn judge_missing(&self, missing: &MissingKey) -> Option<Judgement> {
        self.report_missing_key(missing);
        match self.on_missing_key {
            OnMissingKey::Share => None,
            OnMissingKey::Allow => Some(Judgement::Forward(None)),
            OnMissingKey::Reject => Some(Judgement::Answer(rejection(missing))),
        }
    }

    /// Adds the decision to a response: as fields for the client, as it is for layers further out.
    pub(crate) fn describe<B>(&self, decision: Decision, response: &mut Response<B>) {
        self.fields.append(&decision, response.headers_mut());
        response.extensions_mut().insert(decision);
    }

    /// Reports a key that is missing: loudly once where the server is at fault.
    fn report_missing_key(&self, missing: &MissingKey) {
        let policy = self.policy.name();
        let then = self.on_missing_key;
        // Looks before it writes: requests should not all write to what they share.
        let reported = &self.missing_key_reported;
        if missing.is_by_server()
            && !reported.load(Ordering::Relaxed)
            && !reported.swap(true, Ordering::Relaxed)
        {
            tracing::error!(policy, ?then, "requests have no rate limit key: {missing}");
        } else {
            tracing::debug!(policy, ?then, "a request has no rate limit key: {missing}");
        }
    }

    fn refusal(&self, decision: Decision) -> Response<Bytes> {
        let wait = decision.retry_after();
        tracing::debug!(policy = self.policy.name(), ?wait, "refused");
        let text = match wait {
            Some(_) => "too many requests\n",
            None => "the request asks for more than the rate limit can ever admit\n",
        };
        let mut response = answer(StatusCode::TOO_MANY_REQUESTS, text.to_owned());
        self.describe(decision, &mut response);
        response
    }

    fn report_failure(&self, error: &Error) {
        if self.store.failed(Instant::now()) {
            let (policy, then) = (self.policy.name(), self.on_store_failure);
            tracing::warn!(policy, ?then, "the rate limit's store fails: {error}");
        }
    }

    fn report_recovery(&self) {
        if self.store.answered(Instant::now) {
            tracing::warn!(policy = self.policy.name(), "the rate limit's store answers again");
        }
    }
}

/// Settings are made while a layer is built, before anything is to be reported.
impl Clone for Responder {
    fn clone(&self) -> Self {
        Self {
            on_missing_key: self.on_missing_key,
            on_store_failure: self.on_store_failure,
            ..Self::new(&self.policy)
        }
    }
}

fn rejection(missing: &MissingKey) -> Response<Bytes> {
    if missing.is_by_server() {
        // How the server is set up is not the client's to know.
        let text = "the rate limit is not set up\n".to_owned();
        answer(StatusCode::INTERNAL_SERVER_ERROR, text)
    } else {
        answer(StatusCode::BAD_REQUEST, format!("{missing}\n"))
    }
}

fn unavailable() -> Response<Bytes> {
    let text = "the rate limit can't be checked at the moment\n";
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn answer(status: StatusCode, text: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

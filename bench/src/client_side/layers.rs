//! Layers through Redis: a request through limiter-tower's layer, and through that of tower-rate-limit-fred.

use std::{convert::Infallible, time::Duration};

use anyhow::{Result, bail};
use fred::{clients::Client, types::Key};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use limiter_redis::RedisLimiter;
use limiter_tower::{
    RateLimitLayer,
    key::{HeaderKey, MaybeKey},
};
use tower::{
    Layer, Service, ServiceExt,
    util::{BoxCloneSyncService, service_fn},
};
use tower_rate_limit_fred::KeyResolver;

/// The field that has the key.
const KEY: HeaderName = HeaderName::from_static("x-key");

/// A service behind a layer, of whose response only the status is read.
type Layered = BoxCloneSyncService<Request<()>, StatusCode, Infallible>;

/// Services behind layers of one kind, one for each quota, and the values of their keys.
pub(super) struct Layers {
    services: Vec<Layered>,
    keys: Vec<HeaderValue>,
}

impl Layers {
    pub(super) fn of_limiters(limiters: Vec<RedisLimiter>, keys: &[String]) -> Result<Self> {
        let layer = |limiter| {
            let key = HeaderKey::new(KEY).verified().or_reject();
            layered(RateLimitLayer::new(limiter, key))
        };
        Ok(Self { services: limiters.into_iter().map(layer).collect(), keys: values(keys)? })
    }

    pub(super) fn of_peer(
        client: &Client,
        quotas: &[(u16, Duration)],
        keys: &[String],
    ) -> Result<Self> {
        let layer = |&(capacity, interval): &(u16, Duration)| {
            let builder = tower_rate_limit_fred::RateLimitLayer::builder();
            let builder = builder.conn(client.clone()).key_resolver(ByField);
            layered(builder.capacity(capacity).emission_interval(interval).build())
        };
        Ok(Self { services: quotas.iter().map(layer).collect(), keys: values(keys)? })
    }

    /// Sends a request with the key at `index`, and returns whether it was admitted.
    pub(super) async fn is_admitted(&self, index: usize) -> Result<bool> {
        let service = self.services[index % self.services.len()].clone();
        let request = Request::builder().header(KEY, self.keys[index].clone()).body(())?;
        Ok(match service.oneshot(request).await? {
            StatusCode::OK => true,
            StatusCode::TOO_MANY_REQUESTS => false,
            status => bail!("the layer has answered {status}"),
        })
    }
}

fn values(keys: &[String]) -> Result<Vec<HeaderValue>> {
    Ok(keys.iter().map(|key| HeaderValue::from_str(key)).collect::<Result<_, _>>()?)
}

/// Returns a service that answers at once, behind `layer`.
fn layered<L, S, B>(layer: L) -> Layered
where
    L: Layer<Answers, Service = S>,
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let answers: Answers = service_fn(|_| std::future::ready(Ok(Response::new(String::new()))));
    let service = layer.layer(answers);
    BoxCloneSyncService::new(service.map_response(|response| response.status()))
}

type Answered = std::future::Ready<Result<Response<String>, Infallible>>;
type Answers = tower::util::ServiceFn<fn(Request<()>) -> Answered>;

/// The key of a request for the peer's layer.
#[derive(Clone)]
struct ByField;

impl KeyResolver for ByField {
    type ErrorBody = String;

    fn key<T>(&self, request: &Request<T>) -> Result<Option<Key>, Response<String>> {
        Ok(request.headers().get(KEY).map(|value| Key::from(value.as_bytes())))
    }
}

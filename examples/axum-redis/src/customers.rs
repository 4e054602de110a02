//! Who sends a request: what a service has already, whether it limits requests or not.

use axum::{
    Extension,
    extract::Request,
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};

/// A customer, in the extensions of a request with a valid API key.
#[derive(Clone)]
pub(crate) struct Customer {
    pub(crate) name: &'static str,
    pub(crate) tier: &'static str,
}

/// Returns the customer who owns an API key. A real service has them in a database.
fn owner(api_key: &str) -> Option<Customer> {
    match api_key {
        "alice-1" | "alice-2" => Some(Customer { name: "alice", tier: "premium" }),
        "bob-1" => Some(Customer { name: "bob", tier: "basic" }),
        _ => None,
    }
}

/// Inserts the customer whose API key a request has.
///
/// A request without a valid key is forwarded, so that it is limited before it is rejected: nobody can try
/// more keys than the limit of an address.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key").and_then(|value| value.to_str().ok());
    if let Some(customer) = key.and_then(owner) {
        request.extensions_mut().insert(customer);
    }
    next.run(request).await
}

pub(crate) async fn hello(customer: Option<Extension<Customer>>) -> Response {
    match customer {
        Some(Extension(customer)) => format!("hello {}\n", customer.name).into_response(),
        None => (StatusCode::UNAUTHORIZED, "unknown API key\n").into_response(),
    }
}

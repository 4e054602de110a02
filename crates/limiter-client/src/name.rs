//! The names of hosts.

use http::{
    Extensions, Uri,
    header::HOST,
    request::Parts,
    uri::{Authority, Scheme},
};

/// Returns the name of the host that a request goes to: that of its URI, or else of its field `Host`. It is
/// empty without either, because such requests share one pace: they go to whichever host the client has.
pub(crate) fn host_of_request(head: &Parts) -> String {
    let field = || Authority::try_from(head.headers.get(HOST)?.as_bytes()).ok();
    // The client knows the scheme of a request without one, so no port is left out.
    let name = host_of(&head.uri).or_else(|| Some(name(&field()?, None)));
    name.unwrap_or_default()
}

/// Returns the name of the host that has sent a response, if it is not that of `uri`: a client inside of this
/// layer has followed a redirect.
pub(crate) fn other_host(uri: &Uri, extensions: &Extensions) -> Option<String> {
    let host = host_of(answered_by(extensions)?)?;
    (Some(&host) != host_of(uri).as_ref()).then_some(host)
}

/// Returns the URI of the last request of a client that follows redirects.
#[cfg(feature = "redirects")]
fn answered_by(extensions: &Extensions) -> Option<&Uri> {
    extensions.get::<tower_http::follow_redirect::RequestUri>().map(|uri| &uri.0)
}

#[cfg(not(feature = "redirects"))]
const fn answered_by(_: &Extensions) -> Option<&Uri> {
    None
}

fn host_of(uri: &Uri) -> Option<String> {
    let port = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => Some(80),
        Some(scheme) if *scheme == Scheme::HTTPS => Some(443),
        _ => None,
    };
    uri.authority().map(|authority| name(authority, port))
}

/// Returns the host in lower case, without a user's name and password, and without the dot that ends a fully
/// qualified name; with the port, unless that is the scheme's own.
fn name(authority: &Authority, default_port: Option<u16>) -> String {
    let host = authority.host().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    match authority.port_u16().filter(|port| Some(*port) != default_port) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

//! Which request gets what. All of it is GET or HEAD; nothing changes anything.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};

use crate::answer::{self, Fault};
use crate::api::{self, State};
use crate::assets::{self, Asset};

/// The service.
pub fn routes(state: Arc<State>) -> Router {
    Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { respond(&state, request).await }
    })
}

async fn respond(state: &Arc<State>, request: Request) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let mut response = match checked(state, &parts.method, &parts.headers, &parts.uri) {
        Err(refused) => answer::fault(&refused),
        Ok(()) => found(state, &parts.uri, &parts.headers).await,
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Refuses what is not for us: what would change something, and what another site's page asks for, be it by a name
/// that it had point here.
fn checked(state: &State, method: &Method, headers: &HeaderMap, uri: &Uri) -> Result<(), Fault> {
    if ![Method::GET, Method::HEAD].contains(method) {
        let why = "the explorer only reads: ask with GET";
        return Err(Fault::new(StatusCode::METHOD_NOT_ALLOWED, "Refused", why));
    }
    let hosts: Vec<_> = headers.get_all(header::HOST).iter().collect();
    let named = match hosts[..] {
        [host] => host.to_str().ok().filter(|host| state.is_own(host)),
        _ => None,
    };
    let own = uri.authority().is_none_or(|authority| state.is_own(authority.as_str()));
    if named.is_none() || !own {
        let why = "the host of the request is not this machine's own: open the address that the program printed";
        return Err(Fault::new(StatusCode::MISDIRECTED_REQUEST, "Refused", why));
    }
    let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    let navigates = headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    let is_page = uri.path() == "/";
    if site.is_some_and(|site| site == "cross-site" || site == "same-site")
        && !(navigates && is_page)
    {
        let why = "another site's page may not ask";
        return Err(Fault::new(StatusCode::FORBIDDEN, "Refused", why));
    }
    Ok(())
}

async fn found(state: &Arc<State>, uri: &Uri, headers: &HeaderMap) -> Response<Body> {
    let path = uri.path();
    if let Some(asset) = assets::find(path) {
        return of_asset(asset, headers);
    }
    let raw = uri.query().unwrap_or("");
    match api::find(path) {
        Some(endpoint) => api::run(state, endpoint, raw).await,
        None => answer::fault(&Fault::missing(
            "there is nothing of that name; /api lists what there is",
        )),
    }
}

fn of_asset(asset: &'static Asset, headers: &HeaderMap) -> Response<Body> {
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == asset.tag);
    let mut response = if known {
        answer::response(StatusCode::NOT_MODIFIED, asset.kind, Body::empty())
    } else {
        answer::response(StatusCode::OK, asset.kind, asset.bytes)
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::from_static(asset.tag));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

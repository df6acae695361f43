//! Somebody with a browser: keeps cookies, follows redirects and fills in forms.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// Redirects followed in a row.
const REDIRECTS_MAX: usize = 5;

pub(super) struct Person {
    router: Router,
    cookies: BTreeMap<String, String>,
    /// Headers that the browser adds to everything.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    page: String,
}

/// What the browser shows.
pub(super) struct Shown {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    /// Path and query, after redirects.
    pub(super) path: String,
}

impl Shown {
    /// Fails unless the page holds every one of `texts`.
    pub(super) fn expect(&self, texts: &[&str]) {
        for text in texts {
            assert!(
                self.body.contains(text),
                "{} ({}) lacks {text:?}:\n{}",
                self.path,
                self.status,
                self.body
            );
        }
    }
}

impl Person {
    pub(super) fn new(router: Router) -> Self {
        Self {
            router,
            cookies: BTreeMap::new(),
            headers: vec![("host", "127.0.0.1:8080")],
            page: String::new(),
        }
    }

    /// Opens a page.
    pub(super) async fn open(&mut self, path: &str) -> Shown {
        self.follow(Method::GET, path, String::new()).await
    }

    /// Sends a form with these fields and the hidden ones of the page that is open.
    pub(super) async fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let mut all = hidden_fields(&self.page, path);
        all.extend(
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        self.send_bare(path, &all).await
    }

    /// Sends a form with nothing but these fields.
    pub(super) async fn send_bare(&mut self, path: &str, fields: &[(String, String)]) -> Shown {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.extend_pairs(fields).finish();
        self.follow(Method::POST, path, body).await
    }

    /// Asks for `path` and looks at the answer alone.
    pub(super) async fn get(&self, path: &str) -> Response<Body> {
        self.request(&Method::GET, path, String::new()).await
    }

    /// Sends a form like [`Person::send`], but goes nowhere afterwards.
    pub(super) async fn send_alone(&self, path: &str, fields: &[(&str, &str)]) -> Response<Body> {
        let hidden = hidden_fields(&self.page, path);
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.extend_pairs(hidden).extend_pairs(fields).finish();
        self.request(&Method::POST, path, body).await
    }

    /// Signs in by the form.
    pub(super) async fn sign_in(&mut self, name: &str, password: &str) -> Shown {
        self.open("/admin/login").await;
        let fields = [("name", name), ("password", password)];
        self.send("/admin/login", &fields).await
    }

    /// The first hidden field of that name on the page that is open.
    pub(super) fn hidden(&self, name: &str) -> String {
        let field = format!("type=\"hidden\" name=\"{name}\"");
        attribute(self.page.split(&field).nth(1).unwrap_or(""), "value")
    }

    /// Cookies by name.
    pub(super) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Goes on with the cookies of somebody else.
    pub(super) fn take_cookies(&mut self, from: &Person) {
        self.cookies.clone_from(&from.cookies);
    }

    async fn follow(&mut self, method: Method, path: &str, body: String) -> Shown {
        let (mut method, mut path, mut body) = (method, path.to_owned(), body);
        for _ in 0..REDIRECTS_MAX {
            let response = self.request(&method, &path, body).await;
            self.keep_cookies(response.headers());
            let Some(to) = response.headers().get(header::LOCATION) else {
                let shown = show(response, path).await;
                self.page.clone_from(&shown.body);
                return shown;
            };
            path = to.to_str().expect("a path").to_owned();
            (method, body) = (Method::GET, String::new());
        }
        panic!("too many redirects, the last one to {path}");
    }

    async fn request(&self, method: &Method, path: &str, body: String) -> Response<Body> {
        let path = path.split('#').next().unwrap_or(path);
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        if *method == Method::POST {
            let kind = "application/x-www-form-urlencoded";
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.header(header::COOKIE, cookies.join("; "));
        let request = request.body(Body::from(body)).expect("a request");
        let response = self.router.clone().oneshot(request).await;
        response.expect("the router always answers")
    }

    fn keep_cookies(&mut self, headers: &HeaderMap) {
        for cookie in headers.get_all(header::SET_COOKIE) {
            let cookie = cookie.to_str().expect("a cookie");
            let (name, rest) = cookie.split_once('=').expect("a cookie");
            let value = rest.split(';').next().unwrap_or("");
            match value {
                "" => self.cookies.remove(name),
                value => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }
}

async fn show(response: Response<Body>, path: String) -> Shown {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Shown {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
        path,
    }
}

/// The hidden fields of the form of `page` that is sent to `path`.
fn hidden_fields(page: &str, path: &str) -> Vec<(String, String)> {
    let action = format!("action=\"{path}\"");
    let forms = || page.split("<form").skip(1);
    let to_itself = |form: &&str| !form.split('>').next().unwrap_or("").contains("action=");
    let form = forms().find(|form| form.contains(&action));
    let form = form.or_else(|| forms().find(to_itself));
    let form = form.unwrap_or_else(|| panic!("there is no form for {path} on the page:\n{page}"));
    let form = form.split("</form>").next().unwrap_or("");
    let hidden = form.split("<input type=\"hidden\"").skip(1);
    hidden
        .map(|field| (attribute(field, "name"), attribute(field, "value")))
        .collect()
}

fn attribute(tag: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    let value = tag.split(&start).nth(1).unwrap_or("");
    value.split('"').next().unwrap_or("").replace("&#38;", "&")
}

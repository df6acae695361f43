//! Somebody with a browser: keeps cookies, follows redirects and fills in forms.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::broker::people::ByTrustedProxy;

/// Redirects followed in a row.
const REDIRECTS_MAX: usize = 5;

pub(crate) struct Person {
    router: Router,
    cookies: BTreeMap<String, String>,
    /// Headers that the browser adds to everything.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Where the browser is, if that is known.
    pub(crate) address: Option<SocketAddr>,
    /// Whether the requests come by a proxy that is trusted.
    pub(crate) by_trusted_proxy: Option<ByTrustedProxy>,
    page: String,
}

/// What the browser shows.
pub(crate) struct Shown {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// Path and query, after redirects.
    pub(crate) path: String,
}

impl Shown {
    /// Fails unless the page holds every one of `texts`, as it is written or as it is read.
    pub(crate) fn expect(&self, texts: &[&str]) {
        let words = self.words();
        let has = |text: &&&str| self.body.contains(**text) || words.contains(**text);
        let missing: Vec<_> = texts.iter().filter(|text| !has(text)).collect();
        assert!(
            missing.is_empty(),
            "{} ({}) lacks {missing:?}:\n{words}",
            self.path,
            self.status
        );
    }

    /// The page as it is read: without tags, and on one line.
    pub(crate) fn words(&self) -> String {
        let (_, page) = self.body.split_once("<main").unwrap_or(("", &self.body));
        let pieces = page.split('<').map(|piece| match piece.split_once('>') {
            Some((_, text)) => text,
            None => piece,
        });
        let text = unescaped(&pieces.collect::<Vec<_>>().join(" "));
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Person {
    pub(crate) fn new(router: Router) -> Self {
        Self {
            router,
            cookies: BTreeMap::new(),
            headers: vec![("host", "127.0.0.1:8080")],
            address: None,
            by_trusted_proxy: None,
            page: String::new(),
        }
    }

    /// Opens a page.
    pub(crate) async fn open(&mut self, path: &str) -> Shown {
        self.follow(Method::GET, path, String::new()).await
    }

    /// Sends a form with these fields and the hidden ones of the page that is open.
    pub(crate) async fn send(&mut self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let mut all = hidden_fields(&self.page, path);
        all.extend(
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        self.send_bare(path, &all).await
    }

    /// Sends a form of the page that is open as a browser does: with everything that is filled in, but for
    /// these changes.
    pub(crate) async fn send_filled(&mut self, path: &str, changes: &[(&str, &str)]) -> Shown {
        let mut all = filled_fields(form_of(&self.page, path));
        for (name, value) in changes {
            all.retain(|(field, _)| field != name);
            all.push(((*name).to_owned(), (*value).to_owned()));
        }
        self.send_bare(path, &all).await
    }

    /// Sends a form with nothing but these fields.
    pub(crate) async fn send_bare(&mut self, path: &str, fields: &[(String, String)]) -> Shown {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.extend_pairs(fields).finish();
        self.follow(Method::POST, path, body).await
    }

    /// Asks for `path` and looks at the answer alone.
    pub(crate) async fn get(&self, path: &str) -> Response<Body> {
        self.request(&Method::GET, path, String::new()).await
    }

    /// The same, with the cookies of the answer kept.
    pub(crate) async fn get_keeping(&mut self, path: &str) -> Response<Body> {
        let response = self.get(path).await;
        self.keep_cookies(response.headers());
        response
    }

    /// Sends a form like [`Person::send`], but goes nowhere afterwards.
    pub(crate) async fn send_alone(&self, path: &str, fields: &[(&str, &str)]) -> Response<Body> {
        let hidden = hidden_fields(&self.page, path);
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        let body = body.extend_pairs(hidden).extend_pairs(fields).finish();
        self.request(&Method::POST, path, body).await
    }

    /// Signs in by the form.
    pub(crate) async fn sign_in(&mut self, name: &str, password: &str) -> Shown {
        self.open("/admin/login").await;
        let fields = [("name", name), ("password", password)];
        self.send("/admin/login", &fields).await
    }

    /// The first hidden field of that name on the page that is open.
    pub(crate) fn hidden(&self, name: &str) -> String {
        let field = format!("type=\"hidden\" name=\"{name}\"");
        attribute(self.page.split(&field).nth(1).unwrap_or(""), "value")
    }

    /// Cookies by name.
    pub(crate) fn cookies(&self) -> &BTreeMap<String, String> {
        &self.cookies
    }

    /// Goes on with these cookies.
    pub(crate) fn set_cookies(&mut self, cookies: BTreeMap<String, String>) {
        self.cookies = cookies;
    }

    /// Goes on with the cookies of somebody else.
    pub(crate) fn take_cookies(&mut self, from: &Person) {
        self.cookies.clone_from(&from.cookies);
    }

    async fn follow(&mut self, method: Method, path: &str, body: String) -> Shown {
        let (mut method, mut path, mut body) = (method, path.to_owned(), body);
        for _ in 0..REDIRECTS_MAX {
            let response = self.request(&method, &path, body.clone()).await;
            self.keep_cookies(response.headers());
            let Some(to) = response.headers().get(header::LOCATION) else {
                let shown = show(response, path).await;
                self.page.clone_from(&shown.body);
                return shown;
            };
            path = to.to_str().expect("a path").to_owned();
            if response.status() != StatusCode::TEMPORARY_REDIRECT {
                (method, body) = (Method::GET, String::new());
            }
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
        if let Some(address) = self.address {
            request = request.extension(ConnectInfo(address));
        }
        if let Some(mark) = self.by_trusted_proxy {
            request = request.extension(mark);
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

/// The form of `page` that is sent to `path`.
fn form_of<'a>(page: &'a str, path: &str) -> &'a str {
    let action = format!("action=\"{}", path.replace('&', "&#38;"));
    // Where the page that answers is read from makes no other form of it.
    let is_sent_there = |form: &&str| {
        let rest = form.split_once(&action).map(|(_, rest)| rest);
        rest.is_some_and(|rest| rest.starts_with(['"', '#']))
    };
    let forms = || page.split("<form").skip(1);
    let to_itself = |form: &&str| !form.split('>').next().unwrap_or("").contains("action=");
    let form = forms().find(is_sent_there);
    let form = form.or_else(|| forms().find(to_itself));
    let form = form.unwrap_or_else(|| panic!("there is no form for {path} on the page:\n{page}"));
    form.split("</form>").next().unwrap_or("")
}

/// The hidden fields of the form of `page` that is sent to `path`.
fn hidden_fields(page: &str, path: &str) -> Vec<(String, String)> {
    let hidden = form_of(page, path).split("<input type=\"hidden\"").skip(1);
    hidden
        .map(|field| (attribute(field, "name"), attribute(field, "value")))
        .collect()
}

/// Everything that a form is filled in with.
fn filled_fields(form: &str) -> Vec<(String, String)> {
    let tags = |tag: &'static str| form.split(tag).skip(1);
    let inputs = tags("<input ").filter_map(|input| {
        let tag = input.split('>').next().unwrap_or("");
        let is_sent = !tag.contains("type=\"checkbox\"") || tag.contains(" checked");
        is_sent.then(|| (attribute(tag, "name"), attribute(tag, "value")))
    });
    let areas = tags("<textarea ").map(|area| {
        // A line break behind the tag is none of the text; browsers end lines as HTTP does.
        let text = unescaped(between(area, ">\n", "</textarea>"));
        let text = text.replace('\n', "\r\n");
        (attribute(area, "name"), text)
    });
    let choices = tags("<select ").map(|choice| {
        let options = between(choice, ">", "</select>");
        let all = || options.split("<option ").skip(1);
        let is_selected = |option: &&str| {
            option
                .split('>')
                .next()
                .unwrap_or("")
                .ends_with(" selected")
        };
        let chosen = all().find(is_selected).or_else(|| all().next());
        let value = attribute(chosen.expect("an option"), "value");
        (attribute(choice, "name"), value)
    });
    let fields = inputs.chain(areas).chain(choices);
    fields.filter(|(name, _)| !name.is_empty()).collect()
}

/// What of `text` stands behind the first `begin`, up to `end`.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text.split_once(begin).map_or("", |(_, rest)| rest);
    rest.split(end).next().unwrap_or("")
}

fn unescaped(text: &str) -> String {
    let entities = [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#38;", "&"),
    ];
    entities
        .iter()
        .fold(text.to_owned(), |text, (entity, character)| {
            text.replace(entity, character)
        })
}

fn attribute(tag: &str, name: &str) -> String {
    let start = format!("{name}=\"");
    let value = tag.split(&start).nth(1).unwrap_or("");
    unescaped(value.split('"').next().unwrap_or(""))
}

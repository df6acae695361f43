//! Somebody who is signed in at the admin pages.

use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};

use super::appliance::{Appliance, PASSWORD, USER};

pub(crate) struct Browser {
    client: Client,
    url: String,
    cookie: String,
}

impl Browser {
    pub(crate) async fn signed_in(appliance: &Appliance) -> Self {
        let client = Client::builder().no_proxy().redirect(Policy::none());
        let mut browser = Self {
            client: client.build().expect("a client"),
            url: appliance.url.clone(),
            cookie: String::new(),
        };
        let login = browser.request("/admin/login").await;
        browser.keep_cookie(&login);
        let page = login.text().await.expect("a whole page");
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a token");
        let token = rest.split('"').next().expect("its end");
        let form = format!("csrf={token}&name={USER}&password={PASSWORD}");
        let request = browser.client.post(format!("{}/admin/login", browser.url));
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        let request = request.header("Cookie", &browser.cookie).body(form);
        let answer = request.send().await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "signed in");
        browser.keep_cookie(&answer);
        browser
    }

    /// Reads a page to its end. Tells whether it was there.
    pub(crate) async fn get(&self, page: &str) -> bool {
        let answer = self.request(page).await;
        let is_there = answer.status() == StatusCode::OK;
        answer.bytes().await.expect("a whole page");
        is_there
    }

    async fn request(&self, page: &str) -> Response {
        let request = self.client.get(format!("{}{page}", self.url));
        let request = request.header("Cookie", &self.cookie);
        request.send().await.expect("an answer")
    }

    fn keep_cookie(&mut self, answer: &Response) {
        if let Some(cookie) = answer.headers().get("set-cookie") {
            let text = cookie.to_str().expect("text");
            self.cookie = text.split(';').next().unwrap_or_default().to_owned();
        }
    }
}

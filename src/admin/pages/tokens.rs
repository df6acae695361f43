//! The pages of API tokens, for administrators.

use serde::{Deserialize, Serialize};

use crate::admin::bare::draw_with;
use crate::admin::forms::filled::Filled;
use crate::admin::lists::filter::given;
use crate::admin::page::*;
use crate::admin::security::open_form::fault;
use crate::broker::people::{NewTokenRequest, TOKEN_DAYS_MAX};
use crate::model::access::Secret;
use crate::store::accounts::{ApiToken, TokenId};

const PATH: &str = "/admin/tokens";

#[derive(Template)]
#[template(path = "pages/tokens.html")]
struct TokensPage {
    frame: Frame,
    list: List,
    tokens: Vec<ApiToken>,
    now: Timestamp,
    empty: Empty,
}

/// All tokens.
pub(crate) async fn list(Call { site, visitor, .. }: Call) -> PageResult {
    let tokens = site.people.tokens().list();
    let shown = print::plural(tokens.len() as u64, "token", "tokens");
    let recipe = Recipe::get(&site.management_url("/everpost/tokens"));
    let text = "There is the management token alone. Give every program a token of its own.";
    let step = ("/admin/new-token".to_owned(), "New token");
    Ok(draw(&TokensPage {
        frame: Frame::new(&visitor, "API tokens"),
        tokens,
        now: visitor.now,
        list: List::whole(PATH, shown, recipe.everpost("everpost token list")),
        empty: Empty::new("tokens", "No API tokens yet.", text).leading_to(Some(step)),
    }))
}

/// A token to create.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct TokenForm {
    name: String,
    role: String,
    /// Empty for a token that never expires.
    days: String,
}

#[derive(Template)]
#[template(path = "pages/new_token.html")]
struct NewTokenPage {
    frame: Frame,
    form: Filled<TokenForm>,
}

/// The form for a new token.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    let form = Filled::with(TokenForm {
        name: String::new(),
        role: "viewer".to_owned(),
        days: "90".to_owned(),
    });
    draw_form(&visitor, form)
}

fn draw_form(visitor: &Visitor, form: Filled<TokenForm>) -> Response {
    let frame = Frame::new(visitor, "New API token");
    draw_with(form.status(), &NewTokenPage { frame, form })
}

#[derive(Template)]
#[template(path = "pages/token.html")]
struct TokenPage {
    frame: Frame,
    token: Secret,
}

/// Makes a token, and shows it this once.
pub(crate) async fn create(call: Call) -> PageResult {
    let form = Filled::<TokenForm>::sent(&call.form);
    let TokenForm { name, role, days } = &form.values;
    let (name, role) = (name.trim(), Role::parse(role));
    let days = given(days).map(|days| days.parse()).transpose();
    let no_role = role
        .is_none()
        .then(|| Refusal::of("role", "Choose one of the roles."));
    let no_number = days
        .is_err()
        .then(|| Refusal::of("days", "This is no whole number."));
    let wish = NewTokenRequest {
        name: name.to_owned(),
        role: role.unwrap_or(Role::Viewer),
        days: days.unwrap_or_default(),
    };
    let faults = wish.faults().into_iter().map(fault);
    let faults = faults.chain(no_role.into_iter().chain(no_number).map(Ok));
    let mut faults = faults.collect::<PageResult<Vec<_>>>()?;
    if faults.is_empty() {
        match call.people.tokens().create(call.by(), wish).await {
            Ok(token) => {
                let frame = Frame::new(&call.visitor, format!("Token {name}"));
                return Ok(draw(&TokenPage { frame, token }));
            }
            Err(error) => faults.push(fault(error)?),
        }
    }
    Ok(draw_form(&call.visitor, form.with_faults(faults)))
}

impl Subject for ApiToken {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let id = name_of(names, "token");
        let missing = || PageError::NotFound(format!("token {id}"));
        let number = id.parse().map(TokenId).map_err(|_| missing())?;
        let mut tokens = site.people.tokens().list().into_iter();
        tokens.find(|token| token.id == number).ok_or_else(missing)
    }

    fn page(&self) -> String {
        PATH.to_owned()
    }

    fn address(&self) -> String {
        format!("{PATH}/{}", self.id.0)
    }
}

pub(crate) async fn ask_to_delete(call: Call<ApiToken>) -> PageResult<Question> {
    let used = used(&call.of, call.visitor.now);
    Ok(Question::new(format!("Delete token {}?", call.of.name))
        .would("Programs that hold it are rejected at once.")
        .would(format!("It was used last: {used}."))
        .dangerously())
}

pub(crate) async fn delete(call: Call<ApiToken>) -> PageResult<Done> {
    let ApiToken { id, name, .. } = &call.of;
    call.people.tokens().delete(call.by(), *id).await?;
    Ok(Done::well(format!("Token {name} has been deleted.")))
}

/// When it was used last.
fn used(token: &ApiToken, now: Timestamp) -> String {
    let at = token.used_at;
    at.map_or_else(|| "never".to_owned(), |at| print::relative(at, now))
}

//! The pages of API tokens, for administrators.

use crate::admin::forms::sheet::{Fields, Sheet, SheetPage};
use crate::admin::lists::filter::given;
use crate::admin::page::*;
use crate::broker::people::NewTokenRequest;
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

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct TokenForm {
    name: String,
    role: String,
    /// Empty for a token that never expires.
    days: String,
}

#[derive(Template)]
#[template(path = "pages/token.html")]
struct TokenPage {
    frame: Frame,
    token: Secret,
}

impl Sheet<()> for TokenForm {
    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self {
            role: Role::Viewer.name().to_owned(),
            days: "90".to_owned(),
            ..Self::default()
        })
    }

    fn page(call: &Call, form: Filled<Self>) -> impl Template {
        SheetPage::making(call, Fields::Token, "New API token", PATH, form)
    }

    async fn save(&self, call: &Call) -> PageResult {
        let wish = self.read()?;
        let frame = Frame::new(&call.visitor, format!("Token {}", wish.name));
        let token = call.people.tokens().create(call.by(), wish).await?;
        Ok(draw(&TokenPage { frame, token }))
    }
}

impl TokenForm {
    fn read(&self) -> PageResult<NewTokenRequest> {
        let (role, days) = (Role::parse(&self.role), given(&self.days));
        let days = days.map(|days| days.parse()).transpose();
        let wish = NewTokenRequest {
            name: self.name.trim().to_owned(),
            role: role.unwrap_or(Role::Viewer),
            days: days.clone().unwrap_or_default(),
        };
        let mut faults = Vec::new();
        for fault in wish.faults() {
            faults.extend(PageError::from(fault).in_form()?);
        }
        if role.is_none() {
            faults.push(Refusal::of("role", "Choose one of the roles."));
        }
        if days.is_err() {
            faults.push(Refusal::of("days", "This is no whole number."));
        }
        match faults.is_empty() {
            true => Ok(wish),
            false => Err(faults.into()),
        }
    }
}

impl Subject for ApiToken {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let id = name_of(names, "token");
        let mut tokens = site.people.tokens().list().into_iter();
        let found = tokens.find(|token| id.parse().map(TokenId) == Ok(token.id));
        found.ok_or_else(|| PageError::NotFound(format!("token {id}")))
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

fn used(token: &ApiToken, now: Timestamp) -> String {
    let at = token.used_at;
    at.map_or_else(|| "never".to_owned(), |at| print::relative(at, now))
}

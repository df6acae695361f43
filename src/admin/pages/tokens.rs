//! The pages of API tokens, for administrators.

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::page::*;
use crate::broker::people::{NAME_CHARACTERS_MAX, NewTokenRequest, PeopleError, TOKEN_DAYS_MAX};
use crate::store::accounts::{AccountError, ApiToken, TokenId};

const PATH: &str = "/admin/tokens";

/// Roles with what they let a program do.
const ROLES: [(&str, &str); 3] = [
    (
        "viewer",
        "Viewer: reads everything but secrets and the data of events",
    ),
    (
        "operator",
        "Operator: also reads data, publishes, receives, resubmits and pauses",
    ),
    ("admin", "Admin: everything, as the management token"),
];

#[derive(Template)]
#[template(path = "pages/tokens.html")]
struct TokensPage {
    frame: Frame,
    list: List,
    tokens: Vec<ApiToken>,
    now: Timestamp,
    empty: Empty,
}

impl TokensPage {
    fn state(&self, token: &ApiToken) -> Badge {
        let badge = match token.expires_at.is_some_and(|end| end <= self.now) {
            true => Badge::new(Tone::Bad, "Expired"),
            false => Badge::new(Tone::Good, "Valid"),
        };
        badge.bare()
    }

    fn expires(&self, token: &ApiToken) -> Option<Timestamp> {
        token.expires_at.filter(|end| *end > self.now)
    }

    fn used(&self, token: &ApiToken) -> String {
        used(token, self.now)
    }
}

/// All tokens.
pub(crate) async fn list(visitor: Visitor, State(site): State<Arc<Site>>) -> PageResult {
    let tokens = site.people.tokens().list();
    let shown = print::plural(tokens.len() as u64, "token", "tokens");
    Ok(draw(&TokensPage {
        frame: Frame::new(&visitor, "API tokens"),
        tokens,
        now: visitor.now,
        list: List::whole(
            PATH,
            shown,
            Recipe::get(&site.management_url("/everpost/tokens")).everpost("everpost token list"),
        ),
        empty: Empty::new(
            "tokens",
            "No API tokens yet.",
            "There is the management token alone. Give every program a token of its own.",
        )
        .leading_to(Some(("/admin/new-token".to_owned(), "New token"))),
    }))
}

/// The form for a new token.
pub(crate) async fn draft(visitor: Visitor) -> Response {
    let form = Form::of([("role", "viewer".to_owned()), ("days", "90".to_owned())]);
    draw_form(&visitor, &form, None)
}

fn draw_form(
    visitor: &Visitor,
    form: &Form,
    refusals: impl IntoIterator<Item = Refusal>,
) -> Response {
    let fields = vec![
        Field::line("name", "Name", form)
            .hint(format!(
                "1 to {NAME_CHARACTERS_MAX} characters: the program that gets it."
            ))
            .required(),
        Field::choice("role", "Role", &ROLES, form),
        Field::number("days", "Valid for days", form).hint(format!(
            "1 to {TOKEN_DAYS_MAX}; empty for a token that never expires."
        )),
    ];
    let page = FormPage {
        intro: "Programs send it as the header Authorization: Bearer TOKEN, wherever the management token is taken.".to_owned(),
        sections: vec![Section {
            title: "Token",
            fields,
        }],
        button: "Create token",
        back: PATH.to_owned(),
    };
    page.draw(Frame::new(visitor, "New API token"), refusals)
}

#[derive(Template)]
#[template(path = "pages/token.html")]
struct TokenPage {
    frame: Frame,
    token: String,
}

/// Makes a token, and shows it this once.
pub(crate) async fn create(
    State(site): State<Arc<Site>>,
    Submitted { visitor, form }: Submitted,
) -> PageResult {
    let wish = match wish(&form) {
        Ok(wish) => wish,
        Err(refusals) => return Ok(draw_form(&visitor, &form, refusals)),
    };
    let title = format!("Token {}", wish.name);
    let error = match site.people.tokens().create(&visitor.caller, wish).await {
        Ok(token) => {
            return Ok(draw(&TokenPage {
                frame: Frame::new(&visitor, title),
                token: token.reveal().to_owned(),
            }));
        }
        Err(error) => error,
    };
    match refusal(&error) {
        Some(refusal) => Ok(draw_form(&visitor, &form, [refusal])),
        None => Err(error.into()),
    }
}

/// What the form asks for, or all that is wrong with it.
fn wish(form: &Form) -> Result<NewTokenRequest, Vec<Refusal>> {
    let role = Role::parse(form.text("role"));
    let days = form.filled("days").map(str::parse).transpose();
    let unreadable = days.is_err();
    let wish = NewTokenRequest {
        name: form.text("name").to_owned(),
        role: role.ok_or_else(|| vec![Refusal::of("role", "Choose one of the roles.")])?,
        days: days.unwrap_or_default(),
    };
    let mut refusals: Vec<_> = wish.faults().iter().filter_map(refusal).collect();
    refusals.extend(unreadable.then(|| Refusal::of("days", "This is no whole number.")));
    match refusals.is_empty() {
        true => Ok(wish),
        false => Err(refusals),
    }
}

/// What is told at a field of the form.
fn refusal(error: &PeopleError) -> Option<Refusal> {
    match error {
        PeopleError::Name(problem) => Some(Refusal::of("name", sentence(problem))),
        PeopleError::Days => Some(Refusal::of("days", sentence(&error.to_string()))),
        PeopleError::Account(AccountError::TokenNameTaken) => {
            Some(Refusal::of("name", sentence(&error.to_string())))
        }
        PeopleError::WrongCode
        | PeopleError::Password(_)
        | PeopleError::WrongPassword
        | PeopleError::DeadLink
        | PeopleError::Account(_) => None,
    }
}

impl Subject for ApiToken {
    async fn find(site: &Site, names: &Names) -> Result<Self, PageError> {
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
    let token = &call.of;
    call.people.tokens().delete(call.by(), token.id).await?;
    Ok(Done::well(format!(
        "Token {} has been deleted.",
        token.name
    )))
}

/// When it was used last.
fn used(token: &ApiToken, now: Timestamp) -> String {
    let at = token.used_at;
    at.map_or_else(|| "never".to_owned(), |at| print::relative(at, now))
}

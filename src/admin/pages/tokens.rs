//! The pages of API tokens, for administrators.

use crate::admin::pages::users::chosen_role;
use crate::admin::pages::*;
use crate::broker::people::NewTokenRequest;
use crate::store::accounts::{ApiToken, TokenId};

const PATH: &str = "/admin/tokens";

/// The choice of a lifetime that is not among those offered.
pub(crate) const OTHER: &str = "other";

pub(crate) async fn list(call: Call) -> PageResult {
    let tokens = call.people.tokens().list();
    let recipe = Recipe::of(&call, "/everpost/tokens", "everpost token list");
    answer!("pages/tokens.html", &call.visitor, "API tokens", {
        list: List = List::whole(tokens.len(), ["token", "tokens"], recipe),
        tokens: Vec<ApiToken> = tokens,
    })
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TokenForm {
    name: String,
    role: String,
    /// Empty for a token that never expires; `other` for what `other_days` says.
    days: String,
    other_days: String,
}

impl Sheet<()> for TokenForm {
    const HEAD: Head = (Fields::Token, "New API token", PATH);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self {
            role: Role::Viewer.name().to_owned(),
            days: "90".to_owned(),
            ..Self::default()
        })
    }

    async fn save(&self, call: &Call) -> PageResult {
        let (field, days) = match self.days.as_str() {
            OTHER => ("otherDays", self.other_days.trim()),
            preset => ("days", preset),
        };
        let days = match (field, given(days)) {
            ("days", None) => Ok(None),
            (_, days) => days.unwrap_or_default().parse().map(Some),
        };
        let unread = || FormError::of("days", "Enter a whole number.");
        let wish = NewTokenRequest {
            name: self.name.trim().to_owned(),
            role: chosen_role(&self.role)?,
            days: days.clone().unwrap_or_default(),
        };
        let mut faults = Vec::from_iter(days.is_err().then(unread));
        for fault in wish.faults() {
            faults.extend(PageError::from(fault).in_form()?);
        }
        let of_days = faults.iter_mut().filter(|fault| fault.target == "days");
        of_days.for_each(|fault| fault.target = field.to_owned());
        if !faults.is_empty() {
            return Err(faults.into());
        }
        let title = format!("Token {}", wish.name);
        let token = call.people.tokens().create(call.by(), wish).await?;
        answer!("pages/token.html", &call.visitor, title, {
            token: Secret = token,
        })
    }
}

impl Subject for ApiToken {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let id = numbered("token", name_of(names, "token")).map(TokenId)?;
        let mut tokens = site.people.tokens().list().into_iter();
        existing(tokens.find(|token| token.id == id), "token", id.0)
    }

    fn page(&self) -> String {
        PATH.to_owned()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    fn address(&self) -> String {
        format!("{PATH}/{}", self.id.0)
    }
}

impl Deletable for ApiToken {
    const NOUN: &'static str = "token";

    async fn losing(call: &Call<Self>, question: Question) -> PageResult<Question> {
        let used = used(&call.of, call.visitor.now);
        let question = question.would("Programs that hold it are rejected at once.");
        Ok(question.would(format!("Last used: {used}.")))
    }

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        call.people.tokens().delete(call.by(), call.of.id).await?;
        Ok(true)
    }
}

fn used(token: &ApiToken, now: Timestamp) -> String {
    let at = token.used_at;
    at.map_or_else(|| "never".to_owned(), |at| print::relative(at, now))
}

//! A token that ends by itself: a shared access signature, made with a key of a topic. To make one is as good
//! as to see the key.

use crate::admin::forms::field::{Field, Section};
use crate::admin::forms::form_page::FormPage;
use crate::admin::lists::filter::moment;
use crate::admin::page::*;
use crate::admin::pages::keys;
use crate::admin::pages::topics::snippets;
use crate::admin::paths::topic_page;
use crate::admin::widgets::Due;
use crate::model::access::KeyName;

const KEY: &str = "key";
const ENDS_AT: &str = "endsAt";

/// When a token ends unless another moment is chosen: a day of work with it, and little to find later.
const LIFE: Duration = Duration::from_secs(86_400);

/// A token that is shown.
#[derive(Template)]
#[template(path = "pages/access_token.html")]
struct AccessTokenPage {
    frame: Frame,
    topic: String,
    path: String,
    key: KeyName,
    ends: Due,
    /// What it is good for.
    resource: String,
    token: String,
    /// Publishes an example with it.
    command: String,
}

/// The form for a token.
pub(crate) async fn draft_token(
    Call {
        visitor, of: topic, ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let ends_at = (visitor.now + LIFE).to_string();
    let form = Form::of([(ENDS_AT, ends_at)]);
    Ok(draw_form(&visitor, &topic, &form, None))
}

/// Makes a token and shows it.
pub(crate) async fn make_token(
    State(site): State<Arc<Site>>,
    Call {
        of, visitor, form, ..
    }: Call<Arc<TopicEntry>>,
) -> PageResult {
    let topic = of;
    let chosen = chosen_key(&form).and_then(|key| Ok((key, end(&form, visitor.now)?)));
    let (key, ends_at) = match chosen {
        Ok(chosen) => chosen,
        Err(refusal) => return Ok(draw_form(&visitor, &topic, &form, Some(refusal))),
    };
    let (by, name) = (&visitor.caller, &topic.topic.name);
    let token = site.broker.create_sas_token(by, name, key, ends_at).await?;
    Ok(draw(&AccessTokenPage {
        frame: Frame::new(&visitor, format!("Token for {name}")),
        topic: name.to_string(),
        path: topic_page(name.as_str()),
        key,
        ends: Due::new(ends_at, visitor.now),
        command: snippets::command_with_token(&site, &topic, &token),
        resource: site.publish_url(&topic),
        token,
    }))
}

/// The key to sign with.
fn chosen_key(form: &Form) -> Result<KeyName, Refusal> {
    keys::named(form.text(KEY)).map_err(|_| Refusal::of(KEY, "It must be key1 or key2."))
}

fn end(form: &Form, now: Timestamp) -> Result<Timestamp, Refusal> {
    let expected = "it must be a date and a time, such as 2026-11-21T06:40";
    match moment(form.text(ENDS_AT)) {
        Some(at) if at > now => Ok(at),
        Some(_) => Err(Refusal::of(
            ENDS_AT,
            "This has passed; it must lie in the future.",
        )),
        None => Err(Refusal::of(
            ENDS_AT,
            format!("This is no moment; {expected}."),
        )),
    }
}

fn draw_form(
    visitor: &Visitor,
    topic: &TopicEntry,
    form: &Form,
    refusal: Option<Refusal>,
) -> Response {
    let name = topic.topic.name.as_str();
    let closed = match topic.topic.definition.disable_local_auth {
        true => " As it is now, the topic takes no tokens: local authentication is disabled.",
        false => "",
    };
    let page = FormPage {
        intro: format!(
            "Whoever has the token may publish to {name} until it ends, and never sees the key. Individual \
             tokens cannot be revoked: regenerating the key ends all tokens made with it.{closed}"
        ),
        sections: vec![Section {
            title: "Token",
            fields: vec![
                Field::choice(
                    KEY,
                    "Made with",
                    &[("key1", "key1"), ("key2", "key2")],
                    form,
                ),
                Field::moment(ENDS_AT, "Ends at", form).required(),
            ],
        }],
        button: "Create SAS token",
        back: topic_page(name),
    };
    page.draw(
        Frame::new(visitor, format!("SAS token for {name}")),
        refusal,
    )
}

//! Access rules of queues and Service Bus topics: the list, the page of one rule with its keys, and the form that
//! creates or edits a rule.

use std::sync::Arc;

use axum::extract::Query;
use serde::{Deserialize, Serialize};

use crate::admin::action::{Call, Deletable, Names, Subject, name_of};
use crate::admin::error::{PageError, PageResult};
use crate::admin::form_error::all_of;
use crate::admin::forms::filled::FilledForm;
use crate::admin::forms::form::FormError;
use crate::admin::forms::sheet::{Head, Sheet, SheetFields};
use crate::admin::lists::by_name::NameQuery;
use crate::admin::lists::list::ListPage;
use crate::admin::lists::recipe::Recipe;
use crate::admin::pages::answer;
use crate::admin::pages::keys::{KEYS_STOP, Keyed};
use crate::admin::pages::queues::QueueAccess;
use crate::admin::paths;
use crate::admin::site::{Site, named_in};
use crate::admin::widgets::print::sentence;
use crate::admin::widgets::{Empty, Flash, Icon, filters};
use crate::model::access::{KeyName, KeyOwner};
use crate::model::name::{AccessRuleName, segment};
use crate::model::shared_access::{AccessRule, Right, Rights};
use crate::model::topic::EntityKind;

const LIST: &str = "/admin/access-rules";

pub(crate) async fn list(Query(filter): Query<NameQuery>, call: Call) -> PageResult {
    let (filter, registry) = (FilledForm::with(filter), call.broker.registry());
    let all = registry.access_rules().cloned().collect();
    let key = |rule: &Arc<AccessRule>| rule.name.key();
    let (mut list, rules) = ListPage::by_name(LIST, &filter, all, key, "rules");
    list.recipe = Recipe::of(&call, "/everpost/accessRules", "everpost access-rules list");
    answer!("pages/access_rules.html", &call.visitor, "Access rules", {
        rules: Vec<Arc<AccessRule>> = rules,
        list: ListPage = list,
        filter: FilledForm<NameQuery> = filter,
    })
}

pub(crate) async fn show(call: Call<Arc<AccessRule>>) -> PageResult {
    Arc::draw(&call, Vec::new()).await
}

impl Subject for Arc<AccessRule> {
    async fn find(site: &Site, names: &Names) -> PageResult<Self> {
        let text = name_of(names, "rule");
        let name = named_in("access rule", text, AccessRuleName::parse)?;
        Ok(site.broker.access_rule(&name)?)
    }

    fn page(&self) -> String {
        paths::access_rule_page(self.name.as_str())
    }
}

impl Keyed for Arc<AccessRule> {
    fn owner(&self) -> KeyOwner {
        KeyOwner::AccessRule(self.id)
    }

    async fn draw(call: &Call<Self>, shown: Vec<KeyName>) -> PageResult {
        let rule = &call.of;
        let api = format!("/everpost/accessRules/{}", segment(rule.name.as_str()));
        let command = format!("everpost access-rules show {}", rule.name);
        let own = Some(rule.name.own());
        answer!("pages/access_rule.html", &call.visitor, format!("Access rule {}", rule.name), {
            access: QueueAccess = QueueAccess::with(call, &rule.keys, own, shown).await?,
            recipe: Recipe = Recipe::of(call, &api, command),
            path: String = rule.page(),
            rule: Arc<AccessRule> = Arc::clone(rule),
        })
    }
}

impl Deletable for Arc<AccessRule> {
    const NOUN: &'static str = "access rule";
    const LOSES: &'static str = KEYS_STOP;

    async fn delete(call: &Call<Self>) -> PageResult<bool> {
        let (broker, by) = (&call.broker, call.by());
        Ok(broker.delete_access_rule(by, &call.of.name).await?)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct AccessRuleForm {
    name: String,
    /// The queue or topic; a slash for all of them.
    entity: String,
    send: String,
    listen: String,
    manage: String,
}

impl Sheet<()> for AccessRuleForm {
    const HEAD: Head = (SheetFields::AccessRule, "New access rule", LIST);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self::default())
    }

    async fn save(&self, call: &Call) -> PageResult {
        let (entity, own) = (self.entity.trim(), self.name.trim());
        let name = format!("{entity}/{own}");
        let name = AccessRuleName::parse(name.trim_start_matches('/'));
        let known = |name| call.broker.access_rule(name).ok();
        let taken = |it: Arc<AccessRule>| format!("There is an access rule {} already.", it.name);
        let problem = match &name {
            Ok(_) if own.contains('/') => Some("A slash cannot be part of it.".to_owned()),
            Ok(name) => known(name).map(taken),
            Err(error) => Some(sentence(&error.to_string())),
        };
        let fault = problem.map(|problem| FormError::of("name", problem));
        let missing = entity
            .is_empty()
            .then(|| FormError::of("entity", "Choose what it is for."));
        let faults = fault.into_iter().chain(missing).collect();
        let rights = all_of(faults, self.rights())?;
        let rule_name = name.map_err(PageError::rejected)?;
        put(call, &rule_name, rights, "has been created.").await
    }
}

impl Sheet<Arc<AccessRule>> for AccessRuleForm {
    const HEAD: Head = (SheetFields::AccessRule, "Edit access rule", "");

    fn begin(call: &Call<Arc<AccessRule>>) -> PageResult<Self> {
        Ok(Self::of(call.of.rights))
    }

    async fn save(&self, call: &Call<Arc<AccessRule>>) -> PageResult {
        put(call, &call.of.name, self.rights()?, "has been changed.").await
    }
}

impl AccessRuleForm {
    fn of(rights: Rights) -> Self {
        let tick = |right| if rights.allow(right) { "on" } else { "" }.to_owned();
        Self {
            send: tick(Right::Send),
            listen: tick(Right::Listen),
            manage: tick(Right::Manage),
            ..Self::default()
        }
    }

    fn rights(&self) -> Result<Rights, Vec<FormError>> {
        let all = [Right::Send, Right::Listen, Right::Manage].into_iter();
        let ticks = all.zip([&self.send, &self.listen, &self.manage]);
        let ticked = ticks.filter(|(_, tick)| !tick.is_empty());
        let rights: Vec<Right> = ticked.map(|(right, _)| right).collect();
        if rights.is_empty() {
            Err(vec![FormError::of("send", "Choose at least one right.")])
        } else {
            Ok(rights.into())
        }
    }
}

async fn put<S>(call: &Call<S>, name: &AccessRuleName, rights: Rights, said: &str) -> PageResult {
    let put = call.broker.put_access_rule(call.by(), name, rights.into());
    let rule = put.await?;
    let said = Flash::done(format!("Access rule {} {said}", rule.name));
    call.visitor.leave(said, &rule.page()).await
}

//! Access rules of queues and Service Bus topics: the list, the page of one with its keys, and the form.

use crate::admin::pages::queues::Access;
use crate::admin::pages::*;
use crate::model::shared_access::{AccessRule, Right, Rights};

const LIST: &str = "/admin/access-rules";

pub(crate) async fn list(Query(filter): Query<NameFilter>, call: Call) -> PageResult {
    let (filter, registry) = (Filled::with(filter), call.broker.registry());
    let all = registry.access_rules().cloned().collect();
    let key = |rule: &Arc<AccessRule>| rule.name.key();
    let (mut list, rules) = List::by_name(LIST, &filter, all, key, "rules");
    list.recipe = Recipe::of(&call, "/everpost/accessRules", "everpost access-rules list");
    answer!("pages/access_rules.html", &call.visitor, "Access rules", {
        rules: Vec<Arc<AccessRule>> = rules,
        list: List = list,
        filter: Filled<NameFilter> = filter,
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
            access: Access = Access::with(call, &rule.keys, own, shown).await?,
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
    const HEAD: Head = (Fields::AccessRule, "New access rule", LIST);

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
        let faults = problem.map(|problem| FormError::of("name", problem));
        let missing = entity
            .is_empty()
            .then(|| FormError::of("entity", "Choose what it is for."));
        let faults = faults.into_iter().chain(missing).collect();
        let rights = all_of(faults, self.rights())?;
        let name = name.map_err(PageError::rejected)?;
        put(call, &name, rights, "has been created.").await
    }
}

impl Sheet<Arc<AccessRule>> for AccessRuleForm {
    const HEAD: Head = (Fields::AccessRule, "Edit access rule", "");

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

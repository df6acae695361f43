//! The forms of alert rules and alert channels.

use super::*;
use crate::wire::resource::{parse_alert_channel, parse_alert_rule};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AlertRuleForm(Form);

impl Sheet<()> for AlertRuleForm {
    const HEAD: Head = (Fields::AlertRule, "New alert rule", PAGE);

    fn begin(_: &Call) -> PageResult<Self> {
        Ok(Self::of(&AlertRule {
            enabled: true,
            condition: AlertCondition::EndpointFailing { minutes: 10 },
        }))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let known = call.views.alert_rules().await?;
        let is_taken = |name: &AlertRuleName| known.iter().any(|each| each.name == *name);
        let parse = AlertRuleName::parse;
        let (name, rule) = named(&self.0, "an alert rule", parse, is_taken, self.read())?;
        put_rule(call, &name, rule).await
    }
}

impl Sheet<StoredAlertRule> for AlertRuleForm {
    const HEAD: Head = (Fields::AlertRule, "Edit alert rule", "");

    fn begin(call: &Call<StoredAlertRule>) -> PageResult<Self> {
        Ok(Self::of(&call.of.rule))
    }

    async fn save(&self, call: &Call<StoredAlertRule>) -> PageResult {
        put_rule(call, &call.of.name, self.read()?).await
    }
}

async fn put_rule<S>(call: &Call<S>, name: &AlertRuleName, rule: AlertRule) -> PageResult {
    call.broker.put_alert_rule(call.by(), name, rule).await?;
    let said = Flash::done(format!("Alert rule {name} has been saved."));
    call.visitor.leave(said, PAGE).await
}

impl AlertRuleForm {
    fn of(rule: &AlertRule) -> Self {
        Self(Shape::of::<AlertRule>().form(&json!(rule)))
    }

    /// Returns the alert rule that the form defines, or everything that is wrong with the form.
    fn read(&self) -> Result<AlertRule, Vec<FormError>> {
        let mut document = json!({ "enabled": false });
        let unread = Shape::of::<AlertRule>().write(&self.0, &mut document);
        let read = parse_alert_rule(&document);
        all_of(unread, read.map_err(|invalid| of_fields(&invalid)))
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct AlertChannelForm(Form);

impl Sheet<()> for AlertChannelForm {
    const HEAD: Head = (Fields::AlertChannel, "New alert channel", PAGE);

    fn begin(_: &Call) -> PageResult<Self> {
        let security = SmtpSecurity::StartTls.name().to_owned();
        let fields = [
            ("type", "Email".to_owned()),
            ("port", "587".to_owned()),
            ("security", security),
        ];
        Ok(Self(Form::of(fields)))
    }

    async fn save(&self, call: &Call) -> PageResult {
        let known = call.views.alert_channels().await?;
        let is_taken = |name: &AlertChannelName| known.iter().any(|each| each.name == *name);
        let (parse, read) = (AlertChannelName::parse, self.read(call, None));
        let (name, channel) = named(&self.0, "an alert channel", parse, is_taken, read)?;
        self.put(call, &name, channel).await
    }
}

impl Sheet<StoredAlertChannel> for AlertChannelForm {
    const HEAD: Head = (Fields::AlertChannel, "Edit alert channel", "");

    fn begin(call: &Call<StoredAlertChannel>) -> PageResult<Self> {
        let shape = Shape::of::<AlertChannel>();
        Ok(Self(shape.form(&json!(call.of.channel))))
    }

    fn remark(call: &Call<StoredAlertChannel>) -> String {
        call.of.channel.target()
    }

    async fn save(&self, call: &Call<StoredAlertChannel>) -> PageResult {
        let channel = self.read(call, Some(&call.of.channel))?;
        self.put(call, &call.of.name, channel).await
    }
}

impl AlertChannelForm {
    /// Saves it, and sends a test message if that is the button that was pressed.
    async fn put<S>(
        &self,
        call: &Call<S>,
        name: &AlertChannelName,
        channel: AlertChannel,
    ) -> PageResult {
        let put = call.broker.put_alert_channel(call.by(), name, channel);
        put.await?;
        let said = match self.0.raw("do") {
            "test" => send_test(call, name).await?,
            _ => Flash::done(format!("Alert channel {name} has been saved.")),
        };
        call.visitor.leave(said, PAGE).await
    }

    /// Returns the alert channel that the form defines, or everything that is wrong with the form. Secrets that are
    /// left empty keep their value.
    fn read(
        &self,
        site: &Site,
        known: Option<&AlertChannel>,
    ) -> Result<AlertChannel, Vec<FormError>> {
        let mut document = json!({});
        let unread = Shape::of::<AlertChannel>().write(&self.0, &mut document);
        let read =
            parse_alert_channel(&document, known, site.broker.options().egress.require_https);
        all_of(unread, read.map_err(|invalid| of_fields(&invalid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_rule_defines_it_again() {
        for body in [
            json!({ "type": "EndpointFailing", "minutes": 5, "enabled": false }),
            json!({ "type": "DeadLetters", "count": 7, "minutes": 5 }),
            json!({ "type": "NoEvents", "topic": "shop/orders", "minutes": 5 }),
            json!({ "type": "BackupFailed" }),
        ] {
            let rule = parse_alert_rule(&body).expect("a rule");
            assert_eq!(AlertRuleForm::of(&rule).read(), Ok(rule), "{body}");
        }
    }

    #[test]
    fn fields_of_another_type_of_rule_do_not_matter() {
        let mut form = Form::of([
            ("type", "Expiring".to_owned()),
            ("minutes", "ten".to_owned()),
        ]);
        form.set("days", "14");
        let rule = AlertRuleForm(form).read().expect("a rule");
        assert_eq!(rule.condition, AlertCondition::Expiring { days: 14 });
        assert!(!rule.enabled, "the box is not ticked");
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (of, field, text) in [
            ("EndpointFailing", "minutes", ""),
            ("EndpointFailing", "minutes", "soon"),
            ("DiskSpace", "megabytes", "0"),
            ("NoEvents", "topic", "a b"),
        ] {
            let mut form = Form::of([("type", of.to_owned()), ("minutes", "5".to_owned())]);
            form.set(field, text);
            let form_errors = AlertRuleForm(form).read().expect_err(text);
            assert!(
                form_errors[0].fits(field),
                "{of} {field} {text}: {form_errors:?}"
            );
        }
    }
}

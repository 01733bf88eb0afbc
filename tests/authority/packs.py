"""Packs that tests publish."""

HELPDESK = r"""
pack: helpdesk
version: 2026-11-03.1
jobs:
  triage-ticket:
    title: Triage a ticket
    subject: {kind: ticket, identity: provided, match: exact}
    facts:
      topic:  {type: string, enum: [billing, outage, other], from: caller, sources: [classifier, human]}
      amount: {type: number, from: caller}
    evidence: {fresh_for: PT1H}
    outcomes:
      - id: billing-question
        when: facts.topic == "billing" && facts.amount < 100.0
        next_step: Answer with the billing team's reply.
        outputs: [billing-team-reply]
      - id: refund-review
        when: facts.topic == "billing" && facts.amount >= 100.0
        next_step: Hand the ticket to the refunds lead. Don't reply.
        escalation: refunds-lead
    when_unresolved: {next_step: Leave the ticket to the triage desk., escalation: triage-desk}
    outputs:
      billing-team-reply:
        fields: [body]
        rules:
          - {id: signed,      field: body, must_match: 'The billing team\s*$'}
          - {id: no-promises, field: body, must_not_match: '(?i)\bguarantee'}
          - {id: short,       field: body, max_chars: 1200}
    escalations:
      refunds-lead: {trigger: a refund of 100 or more, why: Refunds of this size need a person's name on them.}
      triage-desk:  {trigger: the ticket fits no outcome, why: Somebody has to look at it.}
""".lstrip()

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

INVOICES = """
pack: ledger
version: "1"
jobs:
  pay-invoice:
    title: Pay an invoice
    subject: {kind: invoice, identity: derived, key: [vendor, invoice]}
    input: fields
    fields:
      vendor: {type: string}
      invoice: {type: integer}
      amount: {type: number, minimum: 0}
    outcomes:
      - {id: pay, when: fields.amount < 500.0, next_step: Pay it.}
    when_unresolved: {next_step: Ask the book-keeper.}
  open-case:
    title: Open a case
    subject: {kind: case, identity: issued, match: case-insensitive}
    facts:
      urgent: {type: boolean, from: caller}
    outcomes:
      - {id: urgent, when: facts.urgent}
    when_unresolved: {next_step: Wait.}
  sort-mail:
    title: Sort a mail
    subject: {kind: mail, identity: derived, key: [subject]}
    input: content
    content: [subject, body]
    outcomes:
      - {id: spam, when: 'content.body.contains("win")'}
    when_unresolved: {next_step: Read it.}
""".lstrip()

TEXTS = r"""
pack: texts
version: "1"
jobs:
  write:
    title: Write
    subject: {kind: note, identity: provided, match: case-insensitive}
    facts: {go: {type: boolean, from: caller}}
    outcomes:
      - {id: go, when: facts.go, outputs: [note]}
      - {id: stop, when: "!facts.go"}
    when_unresolved: {next_step: Wait.}
    outputs:
      note:
        title: A note
        fields: [head, body]
        rules:
          - {id: begins, field: head, must_match: '^\p{Lu}', message: Begin with a capital letter.}
          - {id: no-digits, field: body, must_not_match: '[0-9]+'}
          - {id: names-us, field: body, must_contain: Acme}
          - {id: short, field: body, max_chars: 60}
          - {id: long, field: body, min_chars: 6}
          - {id: links, field: body, allowed_links: [acme.example, docs.acme.example]}
          - {id: polite, field: body, condition: 'text.startsWith("Dear") || text.endsWith("Thanks")'}
      memo:
        fields: [body]
""".lstrip()

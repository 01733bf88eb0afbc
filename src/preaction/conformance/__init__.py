"""Whether an authority, ours or another, keeps the wire contract: one line for each thing that it must do.

    preaction conformance --origin URL --agent-key-env VAR [--operator-key-env VAR]

It speaks plain HTTP and imports nothing of the authority or the gate: what it holds answers against are the words of
`preaction.wire`. Read in this order: `sample` (what it must know of a job), `asking` (HTTP), `lines` (what a line is),
`run` (what the lines share), then the lines themselves: `opening`, `describing`, `deciding`, `refusing`, `verifying`,
`texts`, `operating`, `optional`, `closing`; and `report` (all of them put together).
"""

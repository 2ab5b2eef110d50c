package churn

import (
	"math"

	"tidings/lab/mark"
)

// HopsBound is the target for the mean number of hops: log16 of the number of nodes, plus a tenth,
// plus one.
func HopsBound(nodes int) float64 { return 1.1*math.Log2(float64(nodes))/4 + 1 }

// Describe implements Report.
func (r *Result) Describe() (string, int) { return r.Scenario, r.Nodes }

// minNodesForBytes is the number of members from which on control bytes have a target relative to a
// calm network. In smaller networks there are hardly any.
const minNodesForBytes = 1024

// relativeToCalm returns the marks of control messages and bytes relative to a calm network, with a
// largest factor as the target. They are skipped if there was no calm run.
func relativeToCalm(calm *Result, nodes int, msgs, bytes, most float64) []mark.Mark {
	if calm == nil {
		calm = &Result{}
	}
	marks := []mark.Mark{mark.AtMost("control messages, relative to calm", "", msgs/calm.MsgsPerNodeS, most), mark.AtMost("control bytes, relative to calm", "", bytes/calm.BytesPerNodeS, most)}
	if nodes < minNodesForBytes {
		marks[1] = marks[1].WithoutTarget("the target is for 1024 members")
	}
	if calm.Nodes == 0 {
		marks[0], marks[1] = marks[0].Skipped("calm was not run"), marks[1].Skipped("calm was not run")
	}
	return marks
}

// Marks implements Report.
func (r *Result) Marks(calm *Result) []mark.Mark {
	rate := func(n int) float64 { return float64(n) / float64(r.Lookups) }
	failed := func(most float64) mark.Mark {
		return mark.AtMost("share of lookups that failed", "", rate(r.Failed), most)
	}
	wrong := func(most float64) mark.Mark {
		return mark.AtMost("share with a wrong root", "", rate(r.WrongRoot), most)
	}
	control := func(times float64) []mark.Mark {
		return relativeToCalm(calm, r.Nodes, r.MsgsPerNodeS, r.BytesPerNodeS, times)
	}
	switch {
	case r.SessionMin >= 60:
		return append(control(2), failed(1e-4), wrong(1e-5))
	case r.SessionMin >= 15:
		return append(control(4), failed(1e-3), wrong(1e-4))
	case r.SessionMin > 0:
		return append(control(8), failed(1e-2), wrong(1e-3))
	case r.Loss > 0.01:
		return append(control(4), failed(1e-3))
	case r.Loss > 0:
		return append(control(2), failed(1e-4))
	}
	return []mark.Mark{
		mark.AtMost("mean hops", "", r.HopsMean, HopsBound(r.Nodes)), failed(0), wrong(0),
		mark.AtMost("control", "/s", r.MsgsPerNodeS, 0.5),
		mark.AtMost("control", "B/s", r.BytesPerNodeS, 900),
		mark.AtMost("maximum number of contacts", "", float64(r.ContactsMax), 120),
		mark.AtMost("slowest join", "s", r.JoinMaxS, 10),
		mark.AtMost("mean messages per join", "", r.JoinMsgs, 200),
	}
}

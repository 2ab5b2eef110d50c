package churn

import "math"

// HopsBound is how many hops a look-up may take in the mean: a tenth more than a digit of
// base 16 each, and one.
func HopsBound(nodes int) float64 { return 1.1*math.Log2(float64(nodes))/4 + 1 }

// Of implements Report.
func (r *Result) Of() (string, int) { return r.Scenario, r.Nodes }

// Marks implements Report.
func (r *Result) Marks(calm *Result) []Mark {
	rate := func(n int) float64 { return float64(n) / float64(max(r.Lookups, 1)) }
	hops := Mark{"hops", r.HopsMean, HopsBound(r.Nodes)}
	failed := func(most float64) Mark { return Mark{"failed", rate(r.Failed), most} }
	wrong := func(most float64) Mark { return Mark{"wrong root", rate(r.WrongRoot), most} }
	control := func(times float64) []Mark {
		if calm == nil {
			return nil
		}
		return []Mark{
			{"control, of calm", r.MsgsPerNodeS / calm.MsgsPerNodeS, times},
			{"control bytes, of calm", r.BytesPerNodeS / calm.BytesPerNodeS, times},
		}
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
	return []Mark{
		hops, failed(0), wrong(0),
		{"control/s", r.MsgsPerNodeS, 0.5},
		{"control B/s", r.BytesPerNodeS, 900},
		{"contacts", float64(r.ContactsMost), 120},
		{"join s", r.JoinMostS, 10},
		{"join messages", r.JoinMsgs, 200},
	}
}

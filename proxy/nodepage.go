package proxy

import (
	"net/http"
	"time"

	"tidings/internal/locale"
)

const nodePath = "/node"

// Levels of findings.
const (
	levelOK      = "ok"
	levelNote    = "note"
	levelProblem = "problem"
)

// nodeView is the page about the node itself.
type nodeView struct {
	Status
	Findings []Finding
	Uptime   locale.Text
}

// nodePage shows what the node says about itself, and what its doctor finds.
func (s *Server) nodePage(w http.ResponseWriter, r *http.Request) error {
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	findings, err := s.subs.Doctor(r.Context(), nil)
	if err != nil {
		return err
	}
	uptime := SpanText(time.Duration(status.UptimeS * float64(time.Second)))
	return s.writePage(w, r, http.StatusOK, "node.html", locale.Say("This node"), nodeView{status, findings, uptime})
}

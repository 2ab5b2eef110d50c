package daemon

import (
	"testing"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// Frames wait in the queue of their class. Frames of the failure detector are urgent.
func TestFramesWaitInTheirClass(t *testing.T) {
	d := &Daemon{nodeLoop: newNodeLoop()}
	receive := d.events().Receive
	probe := wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{Body: &overlaypb.Message_Probe{Probe: &overlaypb.Probe{}}})
	route := wire.AppendFrame(nil, wire.Overlay, &overlaypb.Message{Body: &overlaypb.Message_Route{Route: &overlaypb.Route{}}})
	for _, c := range []struct {
		class env.Class
		frame []byte
	}{{env.Control, probe}, {env.Control, route}, {env.Bulk, route}, {env.Bulk, probe}} {
		if !receive("somebody", c.class, c.frame) {
			t.Errorf("there was no room for a frame of class %v", c.class)
		}
	}
	if s := d.loop.Stats(); s.WaitingUrgent != 1 || s.WaitingControl != 1 || s.WaitingBulk != 2 {
		t.Errorf("%+v", s)
	}
}

package sim

import (
	"testing"
)

func TestDebug(t *testing.T) {
	s := rough(*seedFlag, 20000, 30)
	report(t, s)
}

package check

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestErrorsNameFieldValueAndBounds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{AtLeast("a: B", 1, 1), "<nil>"},
		{AtLeast("a: B", time.Millisecond, time.Second), "a: B is 1ms; it must be at least 1s"},
		{AtLeast("a: B", math.NaN(), 1), "a: B is NaN; it must be at least 1"},
		{Between("a: B", 1, 1, 2), "<nil>"},
		{Between("a: B", 2, 1, 2), "<nil>"},
		{Between("a: B", 0, 1, 2), "a: B is 0; it must be from 1 to 2"},
		{Between("a: B", 3, 1, 2), "a: B is 3; it must be from 1 to 2"},
		{Between("a: B", math.NaN(), 1, 2), "a: B is NaN; it must be from 1 to 2"},
		{OneOf("a: B", "x", "x", "y"), "<nil>"},
		{OneOf("a: B", "", "x", "y"), `a: B is ""; it must be one of x, y`},
		{That(true, "a: B", "is wrong"), "<nil>"},
		{That(false, "a: B", "is %d; it must be even", 3), "a: B is 3; it must be even"},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

package loop

import (
	"context"
	"time"
)

// Rest waits for d, or for the end of ctx, and returns its cause then.
func Rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package explain

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON prints it for programs.
func JSON(w io.Writer, e *Explanation) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(e); err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}

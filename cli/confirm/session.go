package confirm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
)

// Reader looks up what is known. What can't be read, other than the object itself, is in the facts with the reason.
type Reader interface {
	Pod(ctx context.Context, namespace, name string) (PodFacts, error)
	Node(ctx context.Context, name string) (NodeState, error)
	Burden(ctx context.Context, node string) Burden
	// May says who the user is, and which of the rights are missing.
	May(ctx context.Context, rights []Right) (Permission, error)
}

// Writer writes a confirmation, in the words of package guard, on the object as it was read: on no successor of its name and, for a node, on no other
// version.
type Writer interface {
	ConfirmPod(ctx context.Context, pod *corev1.Pod, text string) error
	ConfirmNode(ctx context.Context, node *corev1.Node, text string) error
}

// Session asks one person.
type Session struct {
	Reader Reader
	Writer Writer
	// In has the answer, Out gets the report, Err the question and what went wrong.
	In       io.Reader
	Out, Err io.Writer
	// Yes skips the question, DryRun writes nothing.
	Yes, DryRun bool
	Style       Style
	Commands    Commands
}

// Pod confirms that a pod may run twice. It reports whether a force delete of it is now free to go; what is wrong with the
// cluster is an error, what the person or the judgement says is none.
func (s *Session) Pod(ctx context.Context, namespace, name string) (bool, error) {
	f, err := s.Reader.Pod(ctx, namespace, name)
	if err != nil {
		return false, err
	}
	if f.Permission, err = s.Reader.May(ctx, podRights(f.Pod)); err != nil {
		return false, err
	}
	j := JudgePod(f)
	fmt.Fprint(s.Out, ReportPod(f, s.Style, s.Commands))
	if j.Verdict == Ask {
		if s.DryRun {
			return s.dryRun(guard.AnnotationConfirmForceDelete, guard.ConfirmPod(f.Pod, f.Node, f.Now))
		}
		agreed, err := s.Agreed(ctx, "the pod's name to confirm that it may run twice", name)
		if !agreed || err != nil {
			return agreed, err
		}
		// Its time is that of the question, which is earlier than that of the answer: what happened meanwhile counts as since.
		if err := s.Writer.ConfirmPod(ctx, f.Pod, guard.ConfirmPod(f.Pod, f.Node, f.Now)); err != nil {
			return false, err
		}
	}
	fmt.Fprint(s.Out, NextForPod(f, j, s.Style, s.Commands))
	return j.Verdict != NotPermitted, nil
}

// Node confirms that a node is off. It reports whether it is confirmed.
func (s *Session) Node(ctx context.Context, name string) (bool, error) {
	f, err := s.nodeFacts(ctx, name)
	if err != nil {
		return false, err
	}
	j := JudgeNode(f)
	fmt.Fprint(s.Out, ReportNode(f, s.Style))
	if j.Verdict == Ask {
		if s.DryRun {
			return s.dryRun(guard.AnnotationConfirmOff, guard.ConfirmOff(f.Node, f.Lease))
		}
		agreed, err := s.Agreed(ctx, "the node's name to confirm that it is off", name)
		if !agreed || err != nil {
			return agreed, err
		}
		if err := s.confirmNode(ctx, f); err != nil {
			return false, err
		}
	}
	fmt.Fprint(s.Out, NextForNode(f, j, s.Style, s.Commands))
	return j.Verdict == Ask || j.Verdict == Already, nil
}

func (s *Session) nodeFacts(ctx context.Context, name string) (f NodeFacts, err error) {
	if f.NodeState, err = s.Reader.Node(ctx, name); err != nil {
		return f, err
	}
	f.Burden = s.Reader.Burden(ctx, name)
	f.Permission, err = s.Reader.May(ctx, nodeRights(name))
	return f, err
}

// confirmNode writes the confirmation only if the node is as it was shown. A kubelet renews its lease without touching the
// Node, so that the Node's version alone would not tell: it is looked at just before and just after.
func (s *Session) confirmNode(ctx context.Context, shown NodeFacts) error {
	now, err := s.Reader.Node(ctx, shown.Node.Name)
	if err != nil {
		return err
	}
	if why := shown.Changed(now); why != "" {
		return fmt.Errorf("node %s is not what was shown, %s: nothing was changed", shown.Node.Name, why)
	}
	if j := JudgeNode(NodeFacts{NodeState: now}); j.Verdict != Ask && j.Verdict != Already {
		return fmt.Errorf("nothing was changed: %s", j.Reason)
	}
	if err := s.Writer.ConfirmNode(ctx, now.Node, guard.ConfirmOff(now.Node, now.Lease)); err != nil {
		return err
	}
	after, err := s.Reader.Node(ctx, shown.Node.Name)
	if err != nil {
		return fmt.Errorf("the confirmation was written, whether it holds is not known: %w", err)
	}
	if !after.state().ConfirmedOff {
		return fmt.Errorf("node %s was heard of while it was confirmed: the confirmation is void", shown.Node.Name)
	}
	return nil
}

func (s *Session) dryRun(annotation, value string) (bool, error) {
	fmt.Fprintf(s.Out, "Dry run: nothing was changed. It would set %s=%s\n", annotation, console.Printable(value))
	return true, nil
}

// Agreed reports whether the person agrees to what was shown: by typing a name, or with Yes before.
func (s *Session) Agreed(ctx context.Context, what, name string) (bool, error) {
	if s.Yes {
		return true, nil
	}
	fmt.Fprintf(s.Err, "Type %s: ", what)
	answer, err := readLine(ctx, s.In)
	switch {
	case err == nil && answer == name:
		fmt.Fprintln(s.Err)
		return true, nil
	case errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil:
		fmt.Fprintln(s.Err, "\nNot confirmed: nothing was changed.")
	case err != nil:
		return false, fmt.Errorf("read the answer: %w", err)
	case answer == "":
		fmt.Fprintln(s.Err, "Not confirmed: nothing was changed.")
	default:
		fmt.Fprintf(s.Err, "Not confirmed: %q is not %q, nothing was changed.\n", answer, name)
	}
	return false, nil
}

// readLine returns early when the context ends: an interrupt must end a question.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		answers <- answer{strings.TrimSpace(line), err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-answers:
		return a.line, a.err
	}
}

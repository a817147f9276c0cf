package logging

import (
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	logsapi "k8s.io/component-base/logs/api/v1"
	logsjson "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2/textlogger"

	"github.com/podgrace/podgrace/internal/console"
)

// The formats of a log.
const (
	Text = "text"
	JSON = "json"
)

// Options of a log.
type Options struct {
	// Format is Text or JSON.
	Format string
	// Verbosity is the highest level that is logged.
	Verbosity int
}

// Default is a text without what is for who looks for a fault.
func Default() Options { return Options{Format: Text} }

// AddFlags declares the flags with the defaults that are set.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Format, "log-format", o.Format, "text or json: one object a line")
	f.IntVarP(&o.Verbosity, "v", "v", o.Verbosity, "verbosity of the log")
}

// Validate says what is wrong with the options.
func (o *Options) Validate() error {
	if o.Format != Text && o.Format != JSON {
		return fmt.Errorf("--log-format: %q is neither text nor json", o.Format)
	}
	return nil
}

// New returns the log, each entry of which is one write.
func (o *Options) New(out io.Writer) logr.Logger {
	if o.Format != JSON {
		return textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(o.Verbosity), textlogger.Output(console.TextWriter(out))))
	}
	log, _ := logsjson.NewJSONLogger(logsapi.VerbosityLevel(o.Verbosity), zapcore.Lock(logsjson.AddNopSync(console.JSONWriter(out))), nil, &zapcore.EncoderConfig{
		MessageKey: "msg", CallerKey: "caller", NameKey: "logger", TimeKey: "ts", LevelKey: "level",
		EncodeTime: encodeTime, EncodeLevel: encodeLevel, EncodeDuration: zapcore.StringDurationEncoder, EncodeCaller: zapcore.ShortCallerEncoder,
	})
	return log
}

// Failed tells why a program ended, as its last line.
func (o *Options) Failed(out io.Writer, program string, err error) {
	if o.Format == JSON {
		log := o.New(out)
		log.Error(err, "ended", "program", program)
		return
	}
	fmt.Fprintf(console.TextWriter(out), "%s: %v\n", program, err)
}

// encodeTime writes RFC 3339 in UTC, to the microsecond as klog's text has it.
func encodeTime(t time.Time, to zapcore.PrimitiveArrayEncoder) {
	to.AppendString(t.UTC().Format("2006-01-02T15:04:05.000000Z07:00"))
}

// encodeLevel knows the two levels that logr has; zap's negative ones are verbosities, which the field v has.
func encodeLevel(level zapcore.Level, to zapcore.PrimitiveArrayEncoder) {
	if level >= zapcore.ErrorLevel {
		to.AppendString("error")
		return
	}
	to.AppendString("info")
}

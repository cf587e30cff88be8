#include "config.h"

#include "window/spectrum.h"

#include "net/bands.h"

#include <math.h>

enum { HEIGHT = 96, LOW_DB = -90, HIGH_DB = -10 };

struct _PrimeknetSpectrum {
    GtkWidget parent;
    float share[2][BANDS]; /* of the height, before and after */
};

G_DEFINE_FINAL_TYPE(PrimeknetSpectrum, spectrum, GTK_TYPE_WIDGET)

static guint drawn;

void spectrum_show(PrimeknetSpectrum *self, const json_t *status) {
    for (int side = 0; side < 2; side++) {
        const json_t *bands = json_object_get(status, side ? "bands_out_db" : "bands_in_db");
        for (size_t band = 0; band < BANDS; band++) {
            const json_t *db = json_array_get(bands, band);
            double share = db ? (json_number_value(db) - LOW_DB) / (HIGH_DB - LOW_DB) : 0;
            self->share[side][band] = (float)CLAMP(share, 0, 1);
        }
    }
    gtk_widget_queue_draw(GTK_WIDGET(self));
}

static void snapshot(GtkWidget *widget, GtkSnapshot *snapshot) {
    PrimeknetSpectrum *self = PRIMEKNET_SPECTRUM(widget);
    GtkStyleContext *style = gtk_widget_get_style_context(widget);
    float height = (float)gtk_widget_get_height(widget), step = (float)gtk_widget_get_width(widget) / BANDS;
    GdkRGBA colours[2];
    for (int side = 0; side < 2; side++)
        if (!gtk_style_context_lookup_color(style, side ? "after_color" : "before_color", &colours[side]))
            gtk_style_context_get_color(style, &colours[side]);
    for (int side = 0; side < 2; side++)
        for (int band = 0; band < BANDS; band++) {
            float x = roundf(step * (float)band) + 1, y = MAX(1, roundf(height * self->share[side][band]));
            graphene_rect_t bar = GRAPHENE_RECT_INIT(x, height - y, roundf(step) - 2, y);
            gtk_snapshot_append_color(snapshot, &colours[side], &bar);
        }
    g_signal_emit(self, drawn, 0);
}

static void measure(GtkWidget *widget, GtkOrientation orientation, int for_size, int *minimum, int *natural,
                    int *minimum_baseline, int *natural_baseline) {
    (void)widget, (void)for_size;
    *minimum = *natural = orientation == GTK_ORIENTATION_HORIZONTAL ? 10 * BANDS : HEIGHT;
    *minimum_baseline = *natural_baseline = -1;
}

static void spectrum_class_init(PrimeknetSpectrumClass *class) {
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    widget->snapshot = snapshot;
    widget->measure = measure;
    gtk_widget_class_set_accessible_role(widget, GTK_ACCESSIBLE_ROLE_IMG);
    drawn = g_signal_new("drawn", SPECTRUM_TYPE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void spectrum_init(PrimeknetSpectrum *self) {
    (void)self;
}

/* png.h: pictures, by libpng. */
#ifndef EXAMPLES_PNG_H
#define EXAMPLES_PNG_H
#include <png.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct picture {
    size_t width, height;
    unsigned char *samples; /* RGB */
} picture;

static inline int read_png(const char *path, picture *p) {
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!png_image_begin_read_from_file(&image, path))
        return fprintf(stderr, "%s: %s\n", path, image.message), 1;
    image.format = PNG_FORMAT_RGB;
    *p = (picture) {image.width, image.height, malloc(PNG_IMAGE_SIZE(image))};
    if (!p->samples || !png_image_finish_read(&image, NULL, p->samples, 0, NULL))
        return fprintf(stderr, "%s: %s\n", path, image.message), 1;
    return 0;
}

static inline int write_png(const char *path, const picture *p) {
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32) p->width,
                       .height = (png_uint_32) p->height,
                       .format = PNG_FORMAT_RGB};
    if (!png_image_write_to_file(&image, path, 0, p->samples, 0, NULL))
        return fprintf(stderr, "%s: %s\n", path, image.message), 1;
    return 0;
}
#endif

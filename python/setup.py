"""Builds the extension, with the stable ABI of CPython 3.9, and libjitc beside it.

libjitc is, in this order:
  that in the folder $JITC_LIBRARY_DIR, such as a build folder of CMake, with the headers of this tree;
  built by CMake of the tree around this folder, if there is one ($JITC_CMAKE_ARGS: options);
  one that is installed, as pkg-config says. It is not copied, but found where it is.
$JITC_PYTHON_CFLAGS: more options for the compiler of the extension.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent if (HERE.parent / "include/jit/ops.h").is_file() else None
SONAME = "libjitc.so.0"
# Not -Wpedantic: Python keeps functions in pointers to void.
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wstrict-prototypes",
            "-Wmissing-prototypes", "-Wvla"]
FLAGS = shlex.split(os.environ.get("JITC_PYTHON_CFLAGS", ""))
sys.path.insert(0, str(HERE))
import operations  # noqa: E402


def pkg_config(*what):
    return subprocess.run(["pkg-config", *what, "jitc"], check=True, capture_output=True,
                          text=True).stdout.strip()


class Build(build_ext):
    """Finds or builds the library, makes the sources that come from its header, and compiles."""

    def library_folder(self):
        given = os.environ.get("JITC_LIBRARY_DIR")
        if given:
            if not (pathlib.Path(given) / SONAME).is_file():
                sys.exit(f"JITC_LIBRARY_DIR: {given} has no {SONAME}")
            return pathlib.Path(given)
        if not TREE:
            return None
        build = pathlib.Path(self.build_temp).absolute() / "libjitc"
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(["cmake", "-S", TREE, "-B", build, *generator,
                        "-DCMAKE_BUILD_TYPE=Release", "-DJITC_TESTS=OFF", "-DJITC_BENCHMARKS=OFF",
                        "-DJITC_EXAMPLES=OFF", *shlex.split(os.environ.get("JITC_CMAKE_ARGS", ""))],
                       check=True)
        subprocess.run(["cmake", "--build", build, "--target", "jitc", "--parallel"], check=True)
        return build

    def build_extension(self, ext):
        generated = pathlib.Path(self.build_temp).absolute()
        package = pathlib.Path(self.get_ext_fullpath(ext.name)).parent
        library = self.library_folder()
        if library:
            include = TREE / "include" if TREE else pathlib.Path(pkg_config("--variable=includedir"))
            shutil.copy(library / SONAME, package / SONAME)
            ext.extra_link_args += [str(package / SONAME), "-Wl,-rpath,$ORIGIN"]
        else:
            include = pathlib.Path(pkg_config("--variable=includedir"))
            folder = pkg_config("--variable=libdir")
            ext.extra_link_args += [f"-L{folder}", "-ljitc", f"-Wl,-rpath,{folder}"]
        generated.mkdir(parents=True, exist_ok=True)
        header = (include / "jit/ops.h").read_text()
        (generated / "operations.def").write_text(operations.table(header))
        stub = (HERE / "csrc/_jitc.pyi.in").read_text() + operations.stubs(header)
        (package / "_jitc.pyi").write_text(stub)
        ext.include_dirs += [str(include), str(generated)]
        super().build_extension(ext)

    def run(self):
        pathlib.Path(self.get_ext_fullpath("jitc._jitc")).parent.mkdir(parents=True, exist_ok=True)
        super().run()


class Wheel(bdist_wheel):
    """One wheel for all versions of CPython from 3.9 on."""

    def finalize_options(self):
        self.py_limited_api = "cp39"
        super().finalize_options()


class Source(sdist):
    """A source archive has what the extension wants of the tree."""

    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        if TREE:
            folder = pathlib.Path(base_dir) / "csrc/export"
            folder.mkdir(exist_ok=True)
            shutil.copy(TREE / "src/export/dlpack_abi.h", folder)


setup(
    ext_modules=[Extension(
        "jitc._jitc",
        sorted(str(f.relative_to(HERE)) for f in HERE.glob("csrc/*.c")),
        include_dirs=[str(TREE / "src") if TREE else "csrc"],
        depends=[str(f.relative_to(HERE)) for f in [*HERE.glob("csrc/*.h"), *HERE.glob("csrc/*.def")]],
        define_macros=[("Py_LIMITED_API", "0x03090000"), ("_GNU_SOURCE", None)],
        extra_compile_args=["-std=c17", "-fvisibility=hidden", *WARNINGS,
                            "-isystem", sysconfig.get_path("include"),
                            *FLAGS],
        extra_link_args=FLAGS,
        py_limited_api=True,
    )],
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel, "sdist": Source},
)

// SPDX-License-Identifier: MIT
// dladdr() finds exported functions only, and most kernels are not exported. So this reads the symbol table
// of the program or library that contains the function.
#include "launch_state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace simt {

namespace {

struct Module {
    std::uintptr_t address; // an address in the module
    std::uintptr_t base = 0;
    std::string path;
};

int find_module(dl_phdr_info *info, std::size_t, void *data) {
    Module &module = *static_cast<Module *>(data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto &header = info->dlpi_phdr[i];
        const std::uintptr_t start = info->dlpi_addr + header.p_vaddr;
        if (header.p_type != PT_LOAD || module.address < start || module.address - start >= header.p_memsz)
            continue;
        module.base = info->dlpi_addr;
        module.path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
        return 1;
    }
    return 0;
}

class Mapped_file {
  public:
    explicit Mapped_file(const std::string &path) {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) return;
        struct stat status;
        if (fstat(file, &status) == 0 && status.st_size > 0) {
            void *map = mmap(nullptr, std::size_t(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
            if (map != MAP_FAILED) {
                start_ = static_cast<const char *>(map);
                bytes_ = std::size_t(status.st_size);
            }
        }
        close(file);
    }
    Mapped_file(const Mapped_file &) = delete;
    Mapped_file &operator=(const Mapped_file &) = delete;
    ~Mapped_file() {
        if (start_) munmap(const_cast<char *>(start_), bytes_);
    }
    // Null if the file is too short.
    template <typename T>
    const T *at(std::uint64_t offset, std::uint64_t count = 1) const {
        if (offset > bytes_ || count > (bytes_ - offset) / sizeof(T)) return nullptr;
        return reinterpret_cast<const T *>(start_ + offset);
    }

  private:
    const char *start_ = nullptr;
    std::size_t bytes_ = 0;
};

// The mangled name; empty if not found.
std::string find_symbol(const Mapped_file &file, std::uintptr_t value) {
    const auto *header = file.at<ElfW(Ehdr)>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
    const auto *sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
    if (!sections) return {};
    for (unsigned s = 0; s < header->e_shnum; s++) {
        const auto &table = sections[s];
        if ((table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) || table.sh_link >= header->e_shnum)
            continue;
        const auto &names = sections[table.sh_link];
        const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
        const auto *symbols = file.at<ElfW(Sym)>(table.sh_offset, count);
        const char *text = file.at<char>(names.sh_offset, names.sh_size);
        if (!symbols || !text) continue;
        for (std::uint64_t i = 0; i < count; i++)
            if (symbols[i].st_value == value && ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
                symbols[i].st_name < names.sh_size)
                return {text + symbols[i].st_name,
                        strnlen(text + symbols[i].st_name, names.sh_size - symbols[i].st_name)};
    }
    return {};
}

} // namespace

std::string symbol_name(const void *function) {
    Module module = {reinterpret_cast<std::uintptr_t>(function), 0, {}};
    std::string mangled;
    if (dl_iterate_phdr(find_module, &module))
        mangled = find_symbol(Mapped_file(module.path), module.address - module.base);
    if (mangled.empty()) {
        char address[32];
        std::snprintf(address, sizeof address, "%p", function);
        return std::string("at ") + address;
    }
    int status = 0;
    const std::unique_ptr<char, void (*)(void *)> demangled(
        abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
    return status == 0 ? demangled.get() : mangled;
}

} // namespace simt

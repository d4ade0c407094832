from sordini.system.supported import check_system

check_system()
